// Translates the settings of all supported frameworks into the TrainingWords that determine a
// training job's memory.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"
#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Frameworks that differ in their defaults.
enum class Framework {
  kTrainer,  // Hugging Face's Trainer, and scripts with the same option names
  kTrl,      // TRL's SFTTrainer
  kAxolotl,
  kLlamaFactory,
  kTorchtune,
  kSwift  // ms-swift
};
inline constexpr std::pair<Framework, std::string_view> kFrameworkWords[] = {
    {Framework::kTrainer, "Trainer"},     {Framework::kTrl, "TRL"},
    {Framework::kAxolotl, "axolotl"},     {Framework::kLlamaFactory, "LLaMA-Factory"},
    {Framework::kTorchtune, "torchtune"}, {Framework::kSwift, "ms-swift"}};

struct Meaning {
  bool trains = false;       // trains weights in a supported way
  std::string not_modelled;  // why `trains` is false, as a sentence; empty: unknown
  std::string model;         // model name or folder; empty: not named, or known only to the script
  std::string model_from;    // empty: not named
  TrainingWords words;       // valid for PlanOf; in increasing precedence
  TrainingWords engine;      // as `words`, for an inference engine; empty: there is none
  std::vector<std::string> notes;  // one sentence per unsupported or unclear setting
};

// settings: in increasing precedence. Names are case-insensitive, and '-' and '_' are equivalent.
Meaning MeaningOf(const std::vector<Setting>& settings, Framework framework);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::Framework> base::kWordsOf<estimate::Framework> =
    estimate::kFrameworkWords;
}  // namespace carma

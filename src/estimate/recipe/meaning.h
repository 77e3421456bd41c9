// What the settings of a training mean for its memory, independently of the framework.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"
#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Frameworks, distinguished by their defaults.
enum class Framework {
  kTrainer,  // Hugging Face's Trainer, and scripts that use its words
  kTrl,      // its SFTTrainer
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
  bool trains = false;       // whether weights are trained in a modelled way
  std::string not_modelled;  // why not, if known; one sentence
  std::string model;         // name or folder of the model; empty: none is named
  std::string model_from;
  TrainingWords words;             // each is valid for PlanOf; in increasing precedence
  std::vector<std::string> notes;  // one sentence each: what is not modelled, or not understood
};

// settings: in order of increasing precedence; their names may have '-' or '_' and upper or lower
// case.
Meaning MeaningOf(const std::vector<Setting>& settings, Framework framework);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::Framework> base::kWordsOf<estimate::Framework> =
    estimate::kFrameworkWords;
}  // namespace carma

// Reads settings that only Unsloth and TRL's preference and reward trainers state or imply.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Key of a setting with the trainer's kind: dpo, grpo, ppo …
inline constexpr std::string_view kTrainerKind = "trainer_kind";
// Key of a setting that means that Unsloth loads the model.
inline constexpr std::string_view kUnsloth = "unsloth";

// The trainer's kind in the name of a script or class ("train_dpo.py", "GRPOConfig"); empty if
// there is none.
std::string_view TrainerKindOf(std::string_view name);

// Words that take precedence over those of MeaningOf. For GRPO: the length of prompt and answer
// together, whether there is a reference model, and the memory share of an engine in the same
// process. For Unsloth: its kernels, its storage of weights, and the offloading of block inputs.
TrainingWords WordsOfPostTraining(const std::vector<Setting>& settings);

}  // namespace carma::estimate

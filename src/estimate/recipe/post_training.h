// Settings that only Unsloth and TRL's preference and reward trainers state or imply.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// The key of a setting that names a trainer's kind: its value is dpo, grpo, ppo …
inline constexpr std::string_view kTrainerKind = "trainer_kind";
// The key of a setting that means that Unsloth loads the model.
inline constexpr std::string_view kUnsloth = "unsloth";

// The kind in the name of a script or class ("train_dpo.py", "GRPOConfig"); empty: none.
std::string_view TrainerKindOf(std::string_view name);

// Words with higher precedence than those of MeaningOf. For GRPO: the length of prompt and answer
// together, whether there is a reference model, and the share of an engine in the same process. For
// Unsloth: its kernels, how it stores the weights, and that it offloads the inputs of blocks.
TrainingWords WordsOfPostTraining(const std::vector<Setting>& settings);

}  // namespace carma::estimate

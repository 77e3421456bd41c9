// What only Unsloth, and TRL's trainers by preferences and rewards, say or imply.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// The key of a setting that names a trainer's kind: its value is dpo, grpo, ppo …
inline constexpr std::string_view kTrainerKind = "trainer_kind";
// The key of a setting that says that the model is loaded by Unsloth.
inline constexpr std::string_view kUnsloth = "unsloth";

// The kind in the name of a script or class ("train_dpo.py", "GRPOConfig"); empty: none.
std::string_view TrainerKindOf(std::string_view name);

// Words of higher precedence than those of MeaningOf. Of GRPO the length of prompt and answer
// together, whether its reference model exists, and the share of an engine in the same process; of
// Unsloth its kernels, how it stores the weights, and that it offloads the inputs of blocks.
TrainingWords WordsOfPostTraining(const std::vector<Setting>& settings);

}  // namespace carma::estimate

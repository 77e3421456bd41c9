// Reads settings that are specific to Unsloth and to TRL's preference and reward trainers.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Key of the setting that names the kind of trainer: dpo, grpo, ppo …
inline constexpr std::string_view kTrainerKind = "trainer_kind";
// Key of the setting that is present if Unsloth loads the model.
inline constexpr std::string_view kUnsloth = "unsloth";
// Key of the setting that is present if the program starts an inference engine (vLLM, SGLang).
inline constexpr std::string_view kEngine = "inference_engine";

// Kinds of trainers, in the format of base::IsWordIn. Only dpo and grpo are modelled.
inline constexpr std::string_view kTrainerKinds =
    " dpo grpo ppo rm reward kto orpo ipo simpo cpo bco gkd prm rlhf rloo ";
// Returns the kind of trainer named by a script or class ("train_dpo.py", "GRPOConfig"). Empty if
// the name contains none.
std::string TrainerKindOf(std::string_view name);

// Words that take precedence over those of MeaningOf. For GRPO: the combined length of prompt and
// completion, whether there is a reference model, and the memory share of an engine in the same
// process. For Unsloth: its kernels, how it stores the weights, and whether it offloads block
// inputs.
TrainingWords WordsOfPostTraining(const std::vector<Setting>& settings);

}  // namespace carma::estimate

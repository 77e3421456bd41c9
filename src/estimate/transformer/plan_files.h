// Files that say a part of a plan: read instead of asked.
#pragma once

#include <string_view>

#include "base/result.h"
#include "estimate/training_plan.h"

namespace carma::estimate {

// A DeepSpeed configuration as JSON: zero_optimization.stage, offload_optimizer and offload_param
// with a device other than "none", gradient_accumulation_steps; what it leaves to the trainer
// ("auto") stays as it is in `plan`. where: its name for messages.
// Errors: kInvalid, one line with the place.
base::Result<base::Unit> ApplyDeepSpeed(std::string_view text, std::string_view where,
                                        TrainingPlan& plan);

// PEFT's adapter_config.json: r, target_modules (a list, or "all-linear"), lora_dropout,
// modules_to_save. The plan trains adapters then. Errors: as above; another kind of adapter.
base::Result<base::Unit> ApplyAdapterConfig(std::string_view text, std::string_view where,
                                            TrainingPlan& plan);

}  // namespace carma::estimate

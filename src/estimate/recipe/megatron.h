// Settings of Megatron-LM's scripts and of NeMo, which name the model's sizes instead of a model.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Whether these settings are Megatron's, judging by its names for the splits and sizes of a model.
bool IsOfMegatron(const std::vector<Setting>& settings);

// Adds NeMo's settings (model.micro_batch_size, trainer.devices) once more under Megatron's names,
// each right after the original.
void AddPlainNames(std::vector<Setting>& settings);

// Words for what MeaningOf does not cover: Megatron's states, its distributed optimizer, NeMo's
// lengths.
TrainingWords WordsOfMegatron(const std::vector<Setting>& settings);

}  // namespace carma::estimate

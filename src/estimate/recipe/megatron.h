// Reads settings of Megatron-LM's scripts and of NeMo, which state the model's sizes instead of
// naming a model.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Whether the settings are Megatron's, which is recognised by its names for the splits and sizes of
// a model.
bool IsOfMegatron(const std::vector<Setting>& settings);

// Adds copies of NeMo's settings (model.micro_batch_size, trainer.devices) under Megatron's names,
// each right after the original.
void AddPlainNames(std::vector<Setting>& settings);

// Words for settings that MeaningOf does not cover: Megatron's states, its distributed optimizer,
// NeMo's lengths.
TrainingWords WordsOfMegatron(const std::vector<Setting>& settings);

}  // namespace carma::estimate

// Converts the settings of pretraining programs into TrainingWords. Torchtitan's settings come from
// a TOML file and from options named like its keys ("--training.seq_len 8192"). Scripts for
// Megatron-LM and NeMo state the model's sizes instead of naming a model.
#pragma once

#include <vector>

#include "estimate/recipe/meaning.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Returns true if these are torchtitan settings, judging by the names of their sections.
bool IsOfTorchtitan(const std::vector<Setting>& settings);

// settings: in order of increasing precedence, including the launcher's settings (nproc_per_node,
// nnodes). Missing settings get the defaults of torchtitan's JobConfig. The result names the model
// by the folder that contains its files.
Meaning ReadTorchtitan(const std::vector<Setting>& settings);

// Returns true if these are Megatron settings, judging by their names for model sizes and
// parallelism.
bool IsOfMegatron(const std::vector<Setting>& settings);

// Copies settings of NeMo, Hydra and Lightning's command line (model.micro_batch_size,
// trainer.devices, data.batch_size) to their plain names. Each copy is inserted right after the
// original.
void AddPlainNames(std::vector<Setting>& settings);

// Words for settings that MeaningOf does not cover, such as Megatron's distributed optimizer,
// recomputation and schedule, and NeMo's lengths.
TrainingWords WordsOfMegatron(const std::vector<Setting>& settings);

}  // namespace carma::estimate

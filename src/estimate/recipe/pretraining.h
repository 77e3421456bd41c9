// Turns settings of pretraining into words of a plan: torchtitan's, from a TOML file and options
// named like its keys ("--training.seq_len 8192"), and those of Megatron-LM's scripts and NeMo,
// which state the model's sizes instead of naming a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimate/recipe/plan_files.h"
#include "estimate/recipe/settings.h"

namespace carma::estimate {

// Whether the settings are torchtitan's, which is recognised by the names of its sections.
bool IsOfTorchtitan(const std::vector<Setting>& settings);

struct TorchtitanPlan {
  TrainingWords words;
  std::string model;  // folder of the model's files; empty: not named
  std::string model_from;
  std::vector<std::string> notes;  // one sentence each
};

// settings: in increasing precedence, including those of the launcher (nproc_per_node, nnodes).
// Missing settings have the defaults of torchtitan's JobConfig: fp32 shards with 16-bit copies, 8
// samples, selective checkpointing, a fused AdamW, all other GPUs in FSDP, and sequence parallelism
// with tensor parallelism.
TorchtitanPlan ReadTorchtitan(const std::vector<Setting>& settings);

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

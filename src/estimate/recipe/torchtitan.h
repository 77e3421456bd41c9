// Turns the settings of torchtitan into words of a plan. They come from a TOML file and from
// options named like its keys ("--training.seq_len 8192").
#pragma once

#include <string>
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

}  // namespace carma::estimate

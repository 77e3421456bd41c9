// Reads files with settings of a transformer's training.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "estimate/transformer_config.h"
#include "task/describe/training.h"

namespace carma::estimate {

// Each word's `from` is the file's name and the key. where: that name.
using TrainingWords = std::vector<task::TrainingWord>;

// A DeepSpeed configuration as JSON: zero_optimization.stage, offload_optimizer and offload_param
// with a device other than "none", gradient_accumulation_steps, train_micro_batch_size_per_gpu,
// bf16 and fp16; what it leaves to the trainer ("auto") says nothing.
// Errors: kInvalid, one line with the place.
base::Result<TrainingWords> ReadDeepSpeed(std::string_view text, std::string_view where);

// PEFT's adapter_config.json: r, target_modules (a list, or "all-linear"), lora_dropout,
// modules_to_save. Adapters are trained then. Errors: as above; another kind of adapter.
base::Result<TrainingWords> ReadAdapterConfig(std::string_view text, std::string_view where);

// model.safetensors.index.json beside a config.json: metadata.total_size in bytes, as parameters of
// that type; nothing for quantised weights. Errors: as above.
base::Result<TrainingWords> ReadWeightIndex(std::string_view text, std::string_view where,
                                            const TransformerConfig& config);
// Its path: beside the configuration at `config_path`.
std::string WeightIndexBeside(std::string_view config_path);

// Whether adapters of these modules are trainings of embedding or head ("embed_tokens", "lm_head").
bool IsTable(std::string_view module);

}  // namespace carma::estimate

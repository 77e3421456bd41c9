// Reads files that contain settings of a transformer's training.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "estimate/transformer_config.h"
#include "task/describe/training.h"

namespace carma::estimate {

// In this header `where` is the file's name; the `from` of a word is that name and the key.
using TrainingWords = std::vector<task::TrainingWord>;

// Reads a DeepSpeed configuration (JSON): zero_optimization.stage, offload_optimizer and
// offload_param with a device other than "none", gradient_accumulation_steps,
// train_micro_batch_size_per_gpu, bf16 and fp16. Values left to the trainer ("auto") are ignored.
// Errors: kInvalid, one line with the place.
Result<TrainingWords> ReadDeepSpeed(std::string_view text, std::string_view where);

// Reads PEFT's adapter_config.json: r, target_modules (a list, or "all-linear"), lora_dropout,
// modules_to_save. The result is an adapter training. Errors: as ReadDeepSpeed(); also for another
// kind of adapter.
Result<TrainingWords> ReadAdapterConfig(std::string_view text, std::string_view where);

// Reads model.safetensors.index.json beside a config.json: converts metadata.total_size in bytes to
// parameters of the configured type. Empty for quantised weights. Errors: as ReadDeepSpeed().
Result<TrainingWords> ReadWeightIndex(std::string_view text, std::string_view where,
                                      const TransformerConfig& config);
// The path of model.safetensors.index.json beside the configuration at `config_path`.
std::string WeightIndexBeside(std::string_view config_path);

// Reads model_max_length, the length at which the tokenizer cuts texts, from tokenizer_config.json.
// Empty for the huge number that means no limit. Errors: as ReadDeepSpeed().
Result<TrainingWords> ReadTokenizer(std::string_view text, std::string_view where);

// Words from files beside the configuration at `config_path`: the size of the weights and the
// length at which the tokenizer cuts texts. Stated words take precedence over these. read: returns
// a file's text. Missing or malformed files are ignored.
TrainingWords ReadBeside(const std::string& config_path, const TransformerConfig& config,
                         const std::function<Result<std::string>(const std::string& path)>& read);

// A diffusers pipeline: the trained model, and the untrained parts (text encoders and an
// autoencoder).
struct PipelineFound {
  std::string config;   // path of the U-Net's or transformer's config.json
  TrainingWords words;  // frozen-parameters, encodes-images
};
// text: model_index.json at `path`. Encoders whose config.json is missing or unknown are not
// counted. Errors: kInvalid if the text is not JSON or has no U-Net or transformer.
Result<PipelineFound> ReadPipeline(
    std::string_view text, const std::string& path,
    const std::function<Result<std::string>(const std::string& path)>& read);
// Whether the text is a model_index.json.
bool IsPipeline(std::string_view text);

// Whether this module of an adapter is the embedding or the head ("embed_tokens", "lm_head").
bool IsTable(std::string_view module);

}  // namespace carma::estimate

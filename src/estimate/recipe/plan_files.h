// Reads files that contain a transformer's training settings.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "estimate/transformer_config.h"
#include "task/describe/training.h"

namespace carma::estimate {

// In this header, `where` is the file name, and a word's `from` is the file name followed by the
// key.
using TrainingWords = std::vector<task::TrainingWord>;

// Reads a DeepSpeed configuration (JSON): zero_optimization.stage, offload_optimizer and
// offload_param with a device other than "none", gradient_accumulation_steps,
// train_micro_batch_size_per_gpu, bf16 and fp16. Ignores values that are left to the trainer
// ("auto"). Returns kInvalid, as one line with the location, if the text is invalid.
Result<TrainingWords> ReadDeepSpeed(std::string_view text, std::string_view where);

// Reads PEFT's adapter_config.json: r, target_modules (a list, or "all-linear"), lora_dropout,
// modules_to_save. The words describe adapter training. Fails like ReadDeepSpeed(), and also if the
// file describes another kind of adapter.
Result<TrainingWords> ReadAdapterConfig(std::string_view text, std::string_view where);

// Reads model.safetensors.index.json, which is in the same folder as config.json. Computes
// the number of parameters from metadata.total_size (bytes) and the configured type. Empty for
// quantised weights. Fails like ReadDeepSpeed().
Result<TrainingWords> ReadWeightIndex(std::string_view text, std::string_view where,
                                      const TransformerConfig& config);

// Reads model_max_length from tokenizer_config.json: the length to which the tokenizer truncates
// texts. Empty if the value is the huge number that means no limit. Fails like ReadDeepSpeed().
Result<TrainingWords> ReadTokenizer(std::string_view text, std::string_view where);

// Words from files in the folder of `config_path`: the size of the weights, and the length to which
// the tokenizer truncates texts. Words that the task states take precedence over these. read:
// returns a file's text. Missing or malformed files are ignored.
TrainingWords ReadBeside(const std::string& config_path, const TransformerConfig& config,
                         const std::function<Result<std::string>(const std::string& path)>& read);

// A diffusers pipeline: the trained model, and the untrained parts (text encoders and an
// autoencoder).
struct PipelineFound {
  std::string config;   // path of the U-Net's or transformer's config.json
  TrainingWords words;  // frozen-parameters, encodes-images
};
// text: model_index.json, read from `path`. Encoders whose config.json is missing or unsupported
// are not counted. Returns kInvalid if the text is not JSON or has neither a U-Net nor a
// transformer.
Result<PipelineFound> ReadPipeline(
    std::string_view text, const std::string& path,
    const std::function<Result<std::string>(const std::string& path)>& read);
// Returns true if the text is a model_index.json.
bool IsPipeline(std::string_view text);

// Returns true if this adapter module is the embedding or the output head ("embed_tokens",
// "lm_head").
bool IsTable(std::string_view module);

}  // namespace carma::estimate

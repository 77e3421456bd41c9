// Reads files with settings of a transformer's training.
#pragma once

#include <functional>
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

// tokenizer_config.json beside a config.json: model_max_length, at which it cuts; nothing for the
// huge number that stands for no limit. Errors: as above.
base::Result<TrainingWords> ReadTokenizer(std::string_view text, std::string_view where);

// What lies beside the configuration at `config_path`, as words of lower precedence than any that
// are stated: the sizes of the weights, and where the tokenizer cuts. read: a file's text; one that
// is missing or cannot be understood says nothing.
TrainingWords ReadBeside(
    const std::string& config_path, const TransformerConfig& config,
    const std::function<base::Result<std::string>(const std::string& path)>& read);

// A pipeline of diffusers: the model that is trained, and what runs beside it without being
// trained: encoders of texts, and an autoencoder of images.
struct PipelineFound {
  std::string config;   // path of the U-Net's or transformer's config.json
  TrainingWords words;  // frozen-parameters, encodes-images
};
// text: model_index.json at `path`. Encoders whose config.json is missing or not known count
// nothing. Errors: kInvalid: no JSON, or neither a U-Net nor a transformer.
base::Result<PipelineFound> ReadPipeline(
    std::string_view text, const std::string& path,
    const std::function<base::Result<std::string>(const std::string& path)>& read);
// Whether a text is a model_index.json.
bool IsPipeline(std::string_view text);

// Whether adapters of these modules are trainings of embedding or head ("embed_tokens", "lm_head").
bool IsTable(std::string_view module);

}  // namespace carma::estimate

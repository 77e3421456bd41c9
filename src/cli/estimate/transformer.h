// estimate --hf-config: the closed form for transformers, asked with a config.json and options.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "estimate/transformer_config.h"
#include "estimate/transformer/peak.h"
#include "estimate/training_plan.h"

namespace carma::cli {

// Words as they were typed; empty: the default that --help names. Numbers are within the limits
// that the options check.
struct TransformerFlags {
  std::string config;  // path of config.json, "-": standard input; empty: none of this was asked
  std::string adapter_config, deepspeed;  // paths of files that say a part; empty: none
  std::int64_t sequence = 2048;
  std::int64_t mean_length = 0;        // 0: padded or packed to the sequence
  std::string batch, optimizer, gpus;  // shared with the other estimators
  std::string weights;
  double coverage = 0;  // 0: the usual
  std::string method, lora_targets = "q,v";
  std::int64_t lora_rank = 16;
  bool lora_dropout = false;
  bool train_embeddings = false;
  bool amp = false;
  bool unprepared = false;
  std::string checkpointing, attention, loss, data_parallel, offload;
  bool fused_loss = false;
  bool fused_layers = false;
  bool variable_length = false;
  bool packed = false;  // the default, said
  bool accumulates = false;
  std::int64_t tensor_parallel = 1, pipeline = 1, context_parallel = 1;
  std::int64_t gpu_mib = 0;  // 0: not known
};

// Adds the options that only --hf-config takes.
void AddTransformerOptions(CLI::App& verb, TransformerFlags& flags);

// What the flags ask for; reads the files that they name. Errors: kInvalid, naming the option and
// what it takes, or the file and the place.
base::Result<estimate::TrainingPlan> PlanOf(const TransformerFlags& flags,
                                            const estimate::TransformerConfig& config);

std::string TransformerText(const std::string& file, const estimate::TransformerConfig& config,
                            const estimate::TrainingPlan& plan,
                            const estimate::TransformerEstimate& estimate);
// One object; docs/api.md.
std::string TransformerJson(const std::string& file, const estimate::TransformerConfig& config,
                            const estimate::TransformerEstimate& estimate);

// Reads, asks and prints; errors go to the context.
void RunTransformer(Context& context, const TransformerFlags& flags);

}  // namespace carma::cli

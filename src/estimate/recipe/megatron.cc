#include "estimate/recipe/megatron.h"

#include <string>
#include <utility>

#include "estimate/recipe/stated_settings.h"

namespace carma::estimate {
bool IsOfMegatron(const std::vector<Setting>& settings) {
  const StatedSettings said(settings);
  return said.Any({"num_attention_heads"}) != nullptr && said.Any({"hidden_size"}) != nullptr &&
         said.Any({"tensor_model_parallel_size", "use_distributed_optimizer", "num_layers"}) !=
             nullptr &&
         said.Any({"micro_batch_size"}) != nullptr;
}

void AddPlainNames(std::vector<Setting>& settings) {
  if (StatedSettings(settings).Any({"model.micro_batch_size"}) == nullptr) return;
  std::vector<Setting> plain;
  for (const Setting& each : settings) {
    std::string_view name = each.key;
    plain.push_back(each);
    for (const std::string_view before : {"model.", "trainer."}) {
      if (!name.starts_with(before)) continue;
      name.remove_prefix(before.size());
      if (plain.size() < kMaxSettings) plain.push_back({std::string(name), each.value, each.from});
    }
  }
  settings = std::move(plain);
}

TrainingWords WordsOfMegatron(const std::vector<Setting>& settings) {
  const StatedSettings said(settings);
  TrainingWords words;
  AddWord("megatron", "on", *said.Any({"micro_batch_size"}), words);
  const Setting* shared = said.Yes({"use_distributed_optimizer"});
  const Setting* name = said.Value({"optim.name"});
  if (shared == nullptr && name != nullptr && name->value.starts_with("distributed")) shared = name;
  if (shared != nullptr) AddWord("dp", "zero1", *shared, words);
  if (const Setting* length = said.Value({"encoder_seq_length"}))
    AddWord("seq-len", length->value, *length, words);
  if (const Setting* length = said.Value({"data.train_ds.max_seq_length"}))
    AddWord("seq-len", length->value, *length, words);
  if (const Setting* again =
          said.Value({"recompute_granularity", "activations_checkpoint_granularity"}))
    AddWord("gradient-checkpointing", again->value == "full" ? "full" : "attention", *again, words);
  if (const Setting* again = said.Yes({"recompute_activations"}))
    AddWord("gradient-checkpointing", "attention", *again, words);
  const Setting* parts =
      said.Value({"num_layers_per_virtual_pipeline_stage", "virtual_pipeline_model_parallel_size"});
  if (parts != nullptr) AddWord("schedule", "interleaved", *parts, words);
  return words;
}

}  // namespace carma::estimate

#include "estimate/recipe/pretraining.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "estimate/recipe/stated_settings.h"
#include "estimate/training_words.h"

namespace carma::estimate {
namespace {

using Keys = SettingNames;

constexpr std::int64_t kMostGpus = 100'000;

std::string From(const Setting& setting) {
  return base::Printable(PlaceOf(setting), 500);
}

class TitanReader {
 public:
  explicit TitanReader(const std::vector<Setting>& settings) : said_(settings) {}

  Meaning Read() {
    Model();
    Tokens();
    Precision();
    Optimizer();
    Checkpointing();
    Gpus();
    return std::move(plan_);
  }

 private:
  std::optional<std::int64_t> Number(Keys keys) const {
    const Setting* setting = said_.Any(keys);
    return setting == nullptr ? std::nullopt : base::ParseInt(setting->value);
  }
  std::int64_t Degree(Keys keys) const {
    return std::clamp<std::int64_t>(Number(keys).value_or(1), 1, kMostGpus);
  }

  void Add(std::string_view name, std::string value, const Setting* setting) {
    AddIfValid({std::string(name), std::move(value),
                setting != nullptr ? From(*setting) : "torchtitan's default"},
               plan_.words, plan_.notes);
  }
  // Adds the word if one of these settings is enabled.
  void AddYes(std::string_view name, std::string value, Keys keys) {
    if (const Setting* setting = said_.Yes(keys)) Add(name, std::move(value), setting);
  }

  void Model() {
    const Setting* files = said_.Any({"model.hf_assets_path", "model.tokenizer_path"});
    if (files == nullptr) return;
    std::string& folder = plan_.model;
    folder = files->value;
    plan_.model_from = From(*files);
    // In older versions, the setting is the path of the tokenizer's file, which is in a subfolder
    // named "original" in Meta's models.
    if (const std::size_t slash = folder.rfind('/');
        slash != std::string::npos && folder.substr(slash).starts_with("/tokenizer."))
      folder.erase(slash);
    if (folder.ends_with("/original")) folder.erase(folder.size() - 9);
  }

  void Tokens() {
    const Setting* length = said_.Any({"training.seq_len"});
    Add("seq-len", length != nullptr ? length->value : "2048", length);
    const Setting* batch = said_.Any({"training.local_batch_size", "training.batch_size"});
    Add("batch", batch != nullptr ? batch->value : "8", batch);
  }

  void Precision() {
    const Setting* stored = said_.Any({"training.dtype"});
    const bool half = stored != nullptr && stored->value.contains("16");
    Add("weights", half ? "bf16" : "fp32", stored);
    const Setting* mixed = said_.Any({"training.mixed_precision_param"});
    const bool whole = mixed != nullptr && mixed->value.contains("32");
    Add("amp", whole ? "off" : "on", mixed);
    AddYes("fused-layers", "on", {"compile.enable", "training.compile"});
  }

  void Optimizer() {
    const Setting* kind = said_.Any({"optimizer.implementation"});
    const Setting* fused = said_.Any({"optimizer.fused"});
    const bool plain =
        (kind != nullptr && base::ToLower(kind->value) != "fused") ||
        (kind == nullptr && fused != nullptr && base::ToLower(fused->value) == "false");
    const Setting* name = said_.Any({"optimizer.name"});
    const std::string word = name == nullptr ? "adamw" : base::ToLower(name->value);
    Add("optimizer", word.starts_with("adam") ? (plain ? "adamw" : "adamw-fused") : word, name);
    AddYes("step-in-backward", "on", {"optimizer.early_step_in_backward"});
    AddYes("offload", "optimizer,params", {"training.enable_cpu_offload"});
  }

  // "selective" recomputes either every N-th block, or everything except attention and every second
  // matrix product.
  void Checkpointing() {
    const Setting* mode = said_.Any({"activation_checkpoint.mode"});
    const std::string name = mode == nullptr ? "selective" : base::ToLower(mode->value);
    if (name != "selective")
      return Add("gradient-checkpointing", name == "full" ? "full" : "none", mode);
    const Setting* option = said_.Any({"activation_checkpoint.selective_ac_option"});
    const std::optional<std::int64_t> every =
        option == nullptr ? std::nullopt : base::ParseInt(option->value);
    if (every) return Add("checkpoint-every", std::to_string(*every), option);
    Add("gradient-checkpointing", "operators", option != nullptr ? option : mode);
  }

  void Gpus() {
    // In older versions, these settings are in other sections.
    const Keys tensor = {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"};
    const Keys stages = {"parallelism.pipeline_parallel_degree",
                         "experimental.pipeline_parallel_degree"};
    const Keys context = {"parallelism.context_parallel_degree",
                          "experimental.context_parallel_degree"};
    const Keys shards = {"parallelism.data_parallel_shard_degree",
                         "training.data_parallel_shard_degree"};
    const Keys copies = {"parallelism.data_parallel_replicate_degree",
                         "training.data_parallel_replicate_degree"};
    const std::int64_t one_copy = Degree(tensor) * Degree(stages) * Degree(context);
    for (const auto& [word, keys] :
         {std::pair("tp", tensor), std::pair("pp", stages), std::pair("cp", context)}) {
      if (Degree(keys) > 1) Add(word, std::to_string(Degree(keys)), said_.Any(keys));
    }
    if (Degree(tensor) > 1) Add("sequence-parallel", "on", nullptr);
    if (const Keys experts = {"parallelism.expert_parallel_degree"}; Degree(experts) > 1)
      Add("ep", std::to_string(Degree(experts)), said_.Any(experts));
    if (Degree(stages) > 1) Pipeline(Degree(stages));

    const Setting* processes = said_.Any({"nproc_per_node"});
    const std::int64_t all = Degree({"nproc_per_node"}) * Degree({"nnodes"});
    const std::optional<std::int64_t> stated = Number(shards);
    const bool told = stated.value_or(-1) > 0;
    const std::int64_t parts =
        told ? *stated : std::max<std::int64_t>(1, all / (one_copy * Degree(copies)));
    if (!told && processes == nullptr)
      plan_.notes.emplace_back(
          "torchtitan shards the model across all GPUs, but the settings do not say how many there "
          "are");
    const std::int64_t gpus = std::min(parts, kMostGpus / one_copy) * one_copy;
    if (gpus > 1) Add("gpus", std::to_string(gpus), told ? said_.Any(shards) : processes);
    if (parts > 1) Add("dp", "fsdp", said_.Any(shards));
  }

  // A micro-batch is one sample by default. Older versions of torchtitan configure the number of
  // micro-batches, which defaults to the number of stages.
  void Pipeline(std::int64_t stages) {
    const Keys schedules = {"parallelism.pipeline_parallel_schedule",
                            "experimental.pipeline_parallel_schedule"};
    if (const Setting* schedule = said_.Any(schedules))
      Add("schedule", base::ToLower(schedule->value), schedule);
    const Setting* samples = said_.Any({"parallelism.pipeline_parallel_microbatch_size"});
    const Setting* parts = said_.Any({"experimental.pipeline_parallel_microbatches"});
    const std::int64_t batch = std::max<std::int64_t>(
        1, Number({"training.local_batch_size", "training.batch_size"}).value_or(8));
    std::int64_t count = batch;
    if (samples != nullptr) {
      count =
          batch / std::clamp<std::int64_t>(base::ParseInt(samples->value).value_or(1), 1, batch);
    } else if (parts != nullptr) {
      count = base::ParseInt(parts->value).value_or(stages);
    } else if (said_.Any({"experimental.pipeline_parallel_degree"}) != nullptr) {
      count = stages;
    }
    Add("micro-batches", std::to_string(std::clamp<std::int64_t>(count, 1, batch)),
        samples != nullptr ? samples : parts);
  }

  StatedSettings said_;
  Meaning plan_;
};

}  // namespace

bool IsOfTorchtitan(const std::vector<Setting>& settings) {
  const StatedSettings said(settings);
  return said.Any({"job.config_file", "training.seq_len", "training.local_batch_size",
                   "model.flavor"}) != nullptr ||
         std::ranges::any_of(settings, [](const Setting& each) {
           return each.key.starts_with("activation_checkpoint.");
         });
}

Meaning ReadTorchtitan(const std::vector<Setting>& settings) {
  return TitanReader(settings).Read();
}

bool IsOfMegatron(const std::vector<Setting>& settings) {
  const StatedSettings said(settings);
  return said.Any({"num_attention_heads"}) != nullptr && said.Any({"hidden_size"}) != nullptr &&
         said.Any({"tensor_model_parallel_size", "use_distributed_optimizer", "num_layers"}) !=
             nullptr &&
         said.Any({"micro_batch_size"}) != nullptr;
}

void AddPlainNames(std::vector<Setting>& settings) {
  std::vector<Setting> plain;
  for (const Setting& each : settings) {
    std::string_view name = each.key;
    plain.push_back(each);
    for (const std::string_view before : {"model.", "trainer.", "data.", "optim.", "optimizer."}) {
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
  for (const std::string_view key : {"encoder_seq_length", "data.train_ds.max_seq_length"}) {
    if (const Setting* length = said.Value({key}))
      AddWord("seq-len", length->value, *length, words);
  }
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

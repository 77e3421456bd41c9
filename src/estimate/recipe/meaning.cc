#include "estimate/recipe/meaning.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "estimate/recipe/post_training.h"
#include "estimate/recipe/stated_settings.h"
#include "estimate/training_plan.h"
#include "estimate/training_words.h"

namespace carma::estimate {
namespace {

// Translates settings to words, topic by topic. Each topic first adds the framework's defaults.
class Reader {
 public:
  Reader(const std::vector<Setting>& settings, Framework framework)
      : said_(settings), framework_(framework) {}

  Meaning Read() {
    Engine();
    meaning_.engine = std::exchange(meaning_.words, {});
    Model();
    Length();
    Batch();
    Method();
    Precision();
    Optimizer();
    Checkpointing();
    AttentionKernel();
    LossKernel();
    Gpus();
    Splits();
    Fsdp();
    DeepSpeed();
    LightningStrategy();
    NoteDoubts();
    if (const Setting* moved = said_.Yes({"enable_activation_offloading", "activation_offloading"}))
      AddOffload("activations", *moved);
    meaning_.trains = IsTraining() && !IsOfPreferences();
    return std::move(meaning_);
  }

 private:
  void Add(std::string_view name, std::string value, std::string from) {
    AddIfValid({std::string(name), std::move(value), base::Printable(from, 500)}, meaning_.words,
               meaning_.notes);
  }
  void Add(std::string_view name, std::string value, const Setting& setting) {
    Add(name, std::move(value), PlaceOf(setting));
  }
  void AddUsual(std::string_view name, std::string value) {
    Add(name, std::move(value), fmt::format("{}'s default", base::WordOf(framework_)));
  }
  // Adds a note if the value of these settings is known only when the script runs.
  void NoteDoubt(std::string_view name, SettingNames keys) {
    if (const Setting* unknown = said_.Doubt(keys))
      meaning_.notes.push_back(
          fmt::format("{}: the value is known only when the script runs, so {} is a guess",
                      PlaceOf(*unknown), name));
  }
  void AddNumber(std::string_view name, SettingNames keys) {
    NoteDoubt(name, keys);
    if (const Setting* known = said_.Value(keys)) Add(name, known->value, *known);
  }
  // Adds the word if one of these settings is enabled.
  void AddYes(std::string_view name, std::string value, SettingNames keys) {
    if (const Setting* setting = said_.Yes(keys)) Add(name, std::move(value), *setting);
  }

  // Adds a note for each important setting whose value is known only when the script runs.
  void NoteDoubts() {
    NoteDoubt("method", {"use_peft", "use_lora", "finetuning_type", "adapter", "train_type"});
    NoteDoubt("weights", {"torch_dtype", "dtype", "load_in_4bit", "load_in_8bit"});
    NoteDoubt("amp", {"bf16", "fp16", "mixed_precision"});
    NoteDoubt("optimizer", {"optim", "optimizer"});
    NoteDoubt("gradient-checkpointing", {"gradient_checkpointing", "use_gradient_checkpointing"});
    NoteDoubt("dp", {"fsdp", "deepspeed", "deepspeed_config", "zero_stage"});
  }

  bool IsTraining() const {
    // One name at a time, so that "max_steps: null" does not hide a learning rate.
    const auto stated = [&](auto... names) { return (... || (said_.Used({names}) != nullptr)); };
    return framework_ == Framework::kAxolotl || framework_ == Framework::kTorchtune ||
           stated("learning_rate", "lr", "num_train_epochs", "num_epochs", "epochs", "max_steps",
                  "warmup_steps", "warmup_ratio", "lr_scheduler_type", "weight_decay", "optim",
                  "do_train", "per_device_train_batch_size", "per_gpu_train_batch_size",
                  "micro_batch_size", "gradient_accumulation_steps", "lora_r", "lora_rank",
                  "train_batch_size", "finetuning_type", "train_type", "tuner_type");
  }

  // Reads the kind of preference training. Returns true if it is not supported: PPO and similar
  // methods use a second model, or generate text between steps.
  bool IsOfPreferences() {
    const Setting* kind = said_.Value({"stage", "rl", "rlhf_type", kTrainerKind});
    const std::string name = kind == nullptr ? "" : base::ToLower(kind->value);
    const bool modelled = name == "dpo" || name == "grpo";
    if (modelled) Add("objective", name, *kind);
    if (name == "grpo") AddNumber("rollout-share", {"vllm_gpu_memory_utilization"});
    if (modelled || !base::IsWordIn(kTrainerKinds, name)) return false;
    meaning_.not_modelled =
        fmt::format("{}: this kind of preference training is not modelled", PlaceOf(*kind));
    return true;
  }

  // An inference engine reserves a share of the GPU, unless the size of its cache is stated. vLLM's
  // default is 0.9; SGLang's depends on the GPU's memory.
  void Engine() {
    const Setting* engine = said_.Yes({kEngine});
    if (engine == nullptr || said_.Value({"kv_cache_memory_bytes"}) != nullptr) return;
    Add("rollout-share", "0.9", *engine);
    AddNumber("rollout-share", {"gpu_memory_utilization", "mem_fraction_static"});
  }

  void Model() {
    const Setting* model = said_.Used(
        {"model_name_or_path", "base_model", "model", "model_name", "pretrained_model_name_or_path",
         "model_id", "model_path", "model_id_or_path", "base_model_name_or_path", "model_dir",
         "base_model_name", "checkpointer.checkpoint_dir", "config_name", "pretrained_model",
         "hf_model", "llm_model", "ckpt_dir"});
    if (model == nullptr) return;
    if (model->value != kUnknownValue) meaning_.model = model->value;
    meaning_.model_from = PlaceOf(*model);
  }

  void Length() {
    if (framework_ == Framework::kTrl) AddUsual("seq-len", "1024");
    if (framework_ == Framework::kLlamaFactory) AddUsual("seq-len", "2048");
    if (framework_ == Framework::kAxolotl) AddUsual("seq-len", "512");
    // The tokenizer truncates its input even if the trainer allows longer samples.
    AddNumber("seq-len", {"tokenizer.max_length"});
    AddNumber("seq-len", {"max_seq_length", "max_seq_len", "max_length", "sequence_len",
                          "cutoff_len", "block_size", "model_max_length", "seq_length", "seq_len",
                          "sequence_length", "tokenizer.max_seq_len", "max_len", "context_length",
                          "model_max_len", "max_input_length", "max_source_length", "cutoff"});
    AddNumber("target-len", {"max_target_length", "max_target_len", "max_answer_length"});
    const Setting* source = said_.Value({"source_max_len"});
    const Setting* target = said_.Value({"target_max_len"});
    if (source != nullptr && target != nullptr) {
      Add("seq-len",
          std::to_string(base::ParseInt(source->value).value_or(0) +
                         base::ParseInt(target->value).value_or(0)),
          *target);
    }
    AddYes("packed", "on", {"packing", "sample_packing", "dataset.packed", "packed"});
  }

  void Batch() {
    if (framework_ == Framework::kTrainer || framework_ == Framework::kTrl ||
        framework_ == Framework::kLlamaFactory)
      AddUsual("batch", "8");
    AddNumber("batch",
              {"per_device_train_batch_size", "micro_batch_size", "per_gpu_train_batch_size",
               "train_micro_batch_size_per_gpu", "per_device_batch_size", "train_batch_size",
               "batch_size", "micro_batch", "batch_size_per_device"});
    const Setting* passes =
        said_.Value({"gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum"});
    if (passes != nullptr && base::ParseInt(passes->value).value_or(1) > 1)
      Add("grad-accum", "on", *passes);
  }

  // ---- full training or adapters ----

  // The setting that selects adapter training. Null if there is none.
  const Setting* SaysLora() {
    const Setting* kind = said_.Value({"finetuning_type", "adapter", "peft_method", "train_type",
                                       "tuner_type", "sft_type", "peft_type", "peft"});
    if (kind != nullptr) {
      const std::string name = base::ToLower(kind->value);
      if (name.contains("lora")) return kind;
      if (TruthOf(name) == true) return kind;
      if (name != "full" && TruthOf(name) != false) {
        meaning_.notes.push_back(fmt::format("{}: '{}' is not modelled", PlaceOf(*kind),
                                             base::Printable(kind->value, 40)));
      }
      return nullptr;
    }
    const Setting* asked =
        said_.Any({"use_peft", "use_lora", "lora", "enable_lora", "lora_enable"});
    const std::optional<bool> uses = asked == nullptr ? std::nullopt : TruthOf(asked->value);
    if (uses) return *uses ? asked : nullptr;
    const Setting* component = said_.Value({"model._component_"});
    if (component != nullptr && component->value.contains("lora_")) return component;
    const Setting* rank = said_.Value({"lora_r", "lora_rank"});
    if (rank != nullptr) return base::ParseInt(rank->value).value_or(0) > 0 ? rank : nullptr;
    return said_.Unknown({"lora_r", "lora_rank"});
  }

  void Method() {
    if (framework_ == Framework::kLlamaFactory || framework_ == Framework::kSwift) {
      AddUsual("method", "lora");
      AddUsual("lora-rank", "8");
      AddUsual("lora-targets", "all");
      lora_ = true;
    }
    const Setting* full = said_.Value({"finetuning_type", "train_type", "tuner_type", "sft_type"});
    if (full != nullptr && base::ToLower(full->value) == "full") {
      Add("method", "full", *full);
      lora_ = false;
    }
    if (const Setting* lora = SaysLora()) {
      Add("method", "lora", *lora);
      lora_ = true;
    }
    AddNumber("lora-rank", {"lora_r", "lora_rank", "lora_dim", "model.lora_rank"});
    const Setting* dropout = said_.Value({"lora_dropout", "model.lora_dropout"});
    if (dropout != nullptr && base::ParseDouble(dropout->value).value_or(0) > 0)
      Add("lora-dropout", "on", *dropout);
    Targets();
    const Setting* saved =
        said_.Value({"modules_to_save", "lora_modules_to_save", "additional_target"});
    if (saved == nullptr) return;
    for (const std::string_view module : base::Split(saved->value, ',')) {
      if (IsTable(base::Trim(module))) return Add("train-embeddings", "on", *saved);
    }
  }

  void Targets() {
    if (const Setting* all = said_.Yes({"lora_target_linear", "lora_all_linear"}))
      return Add("lora-targets", "all", *all);
    const Setting* named = said_.Value({"lora_target_modules", "lora_target", "target_modules",
                                        "model.lora_attn_modules", "lora_targets"});
    if (named == nullptr) return;
    std::string list = named->value;  // may be "['q_proj', 'v_proj']"
    std::erase_if(list, [](char c) { return std::string_view("[]'\" ").contains(c); });
    if (const Setting* mlp = said_.Yes({"model.apply_lora_to_mlp"}); mlp != nullptr) list += ",mlp";
    Add("lora-targets", list, *named);
  }

  // Returns the setting that quantises the weights (or null), and sets `bits` to their width.
  const Setting* Quantised(int& bits) const {
    if (const Setting* yes =
            said_.Yes({"load_in_4bit", "use_4bit", "load_4bit", "use_qlora", "qlora"})) {
      bits = 4;
      return yes;
    }
    if (const Setting* yes = said_.Yes({"load_in_8bit", "use_8bit", "load_8bit"})) {
      bits = 8;
      return yes;
    }
    const Setting* kind = said_.Value({"adapter", "train_type"});
    const Setting* component = said_.Value({"model._component_"});
    for (const Setting* each : {kind, component}) {
      if (each != nullptr && base::ToLower(each->value).contains("qlora")) {
        bits = 4;
        return each;
      }
    }
    const Setting* number = said_.Value({"quantization_bit", "quant_bits", "bits"});
    if (number == nullptr) return nullptr;
    bits = static_cast<int>(base::ParseInt(number->value).value_or(0));
    return bits == 4 || bits == 8 ? number : nullptr;
  }

  static std::string DtypeWord(std::string_view value) {
    std::string name = base::ToLower(value);
    name.erase(0, name.find_last_of('.') + 1);  // "torch."
    if (const std::size_t dash = name.find("-true"); dash != std::string::npos) name.erase(dash);
    if (name == "half") return "fp16";
    if (name == "float") return "fp32";
    return base::FromWord<Dtype>(name) ? name : "";
  }

  void Precision() {
    int bits = 0;
    if (const Setting* quantised = Quantised(bits)) {
      const bool usual =
          framework_ == Framework::kLlamaFactory || framework_ == Framework::kAxolotl;
      SettingNames doubly = {"bnb_4bit_use_double_quant", "use_bnb_nested_quant",
                             "use_nested_quant",          "double_quant",
                             "double_quantization",       "bnb_4bit_double_quant"};
      const bool twice = said_.Yes(doubly) != nullptr || (usual && !said_.No(doubly));
      Add("weights", bits == 8 ? "int8" : twice ? "nf4-dq" : "nf4", *quantised);
      if (!lora_) Add("method", "lora", *quantised);
      lora_ = true;
    } else {
      Weights();
    }
    if (said_.Yes({"pure_bf16"}) != nullptr) return;
    for (const std::string_view key : {"bf16", "fp16"}) {
      const Setting* setting = said_.Any({key});
      const bool left = setting != nullptr && base::ToLower(setting->value) == "auto";
      if (setting == nullptr || (!left && TruthOf(setting->value) != true)) continue;
      if (framework_ == Framework::kTorchtune) continue;
      return Add("amp", "on", *setting);
    }
    // Lightning selects mixed precision with values of "precision" such as bf16-mixed.
    const Setting* precision = said_.Value({"precision"});
    if (precision != nullptr && base::ToLower(precision->value).contains("mixed"))
      return Add("amp", "on", *precision);
    const Setting* mixed = said_.Value({"mixed_precision", "bnb_mixed_precision"});
    if (mixed != nullptr && base::ToLower(mixed->value) != "no") Add("amp", "on", *mixed);
  }

  void Weights() {
    // "auto" means as in config.json.
    const Setting* stated = said_.Any({"torch_dtype", "dtype", "model_dtype"});
    if (stated != nullptr && stated->value == "auto") return;
    const Setting* dtype =
        said_.Value({"torch_dtype", "dtype", "model_dtype", "params_dtype", "load_dtype"});
    if (dtype == nullptr) dtype = said_.Value({"precision"});
    if (dtype != nullptr) {
      const std::string word = DtypeWord(dtype->value);
      if (!word.empty()) return Add("weights", word, *dtype);
    }
    if (const Setting* pure = said_.Yes({"pure_bf16"})) return Add("weights", "bf16", *pure);
    const Setting* amp = said_.Yes({"bf16", "fp16"});
    switch (framework_) {
      case Framework::kTrainer:
      case Framework::kTrl:
        // In Transformers 4, from_pretrained converts weights to fp32 unless a dtype is stated.
        return AddUsual("weights", "fp32");
      case Framework::kLlamaFactory:
        // LLaMA-Factory loads weights in 16 bits and converts trained weights to fp32.
        return AddUsual("weights", lora_ || amp == nullptr ? "bf16" : "fp32");
      case Framework::kAxolotl:
      case Framework::kTorchtune:
      case Framework::kSwift:
        return;
    }
  }

  void Optimizer() {
    const Setting* named = said_.Value({"optim", "optimizer", "optimizer._component_",
                                        "optimizer_name", "optim_name", "optimizer_type"});
    if (named == nullptr) return;
    std::string word = base::ToLower(named->value);
    word.erase(0, word.find_last_of('.') + 1);
    for (const auto& [written, meant] :
         {std::pair("pagedadamw8bit", "paged-adamw-8bit"), std::pair("pagedadamw", "paged-adamw"),
          std::pair("adamw8bit", "adamw-8bit"), std::pair("adam8bit", "adam-8bit"),
          std::pair("adamw4bit", "adamw-4bit")}) {
      if (word == written) word = meant;
    }
    AddYes("step-in-backward", "on", {"optimizer_in_bwd"});
    const bool fused = said_.Yes({"optimizer.fused", "optim_fused"}) != nullptr;
    if (fused && word == "adamw") word = "adamw-fused";
    Add("optimizer", word, *named);
  }

  // ---- kept activations ----

  void Checkpointing() {
    if (framework_ == Framework::kLlamaFactory || framework_ == Framework::kSwift) {
      if (said_.Yes({"disable_gradient_checkpointing"}) == nullptr)
        AddUsual("gradient-checkpointing", "full");
    }
    // Since the release that renamed max_seq_length to max_length, TRL enables gradient
    // checkpointing by default.
    if (framework_ == Framework::kTrl && said_.Any({"max_seq_length"}) == nullptr)
      AddUsual("gradient-checkpointing", "full");
    const Setting* asked = said_.Any(
        {"gradient_checkpointing", "use_gradient_checkpointing", "enable_gradient_checkpointing",
         "enable_activation_checkpointing", "activation_checkpointing",
         "fsdp_config.activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing",
         "fsdp_activation_checkpointing", "grad_checkpoint", "grad_checkpointing"});
    if (const Setting* again = said_.Value({"recompute_granularity"}))
      Add("gradient-checkpointing", base::ToLower(again->value) == "full" ? "full" : "attention",
          *again);
    if (asked == nullptr) return;
    const std::string value = base::ToLower(asked->value);
    if (value == "auto") return;
    if (value.contains("offload")) AddOffload("activations", *asked);
    // Axolotl and Unsloth accept a method name in place of true.
    Add("gradient-checkpointing", TruthOf(value) == false ? "none" : "full", *asked);
  }

  // Adds `what` to the list of offloaded parts.
  void AddOffload(const std::string& what, const Setting& setting) {
    std::string list = what;
    for (const task::TrainingWord& word : meaning_.words) {
      if (word.name == "offload") list = word.value + "," + what;
    }
    Add("offload", list, setting);
  }

  void AttentionKernel() {
    const Setting* kind = said_.Value({"attn_implementation", "flash_attn", "attn_impl",
                                       "attention_implementation", "attn_implementations"});
    if (kind != nullptr) {
      const std::string name = base::ToLower(kind->value);
      return Add("attention", name == "eager" || name == "disabled" ? "eager" : "flash", *kind);
    }
    if (said_.No({"flash_attn"})) return;
    AddYes("attention", "flash",
           {"flash_attention", "use_flash_attention", "use_flash_attention_2", "use_flash_attn",
            "use_flash_attn_2", "sdp_attention", "sdpa_attention"});
  }

  void LossKernel() {
    if (const Setting* classes = said_.Yes({"class_head"})) return Add("loss", "none", *classes);
    if (const Setting* liger = said_.Yes({"use_liger_kernel", "use_liger", "enable_liger_kernel",
                                          "liger_kernel", "liger_fused_linear_cross_entropy"})) {
      Add("loss", "fused", *liger);
      return Add("fused-layers", "on", *liger);
    }
    if (const Setting* cut = said_.Yes({"cut_cross_entropy"})) return Add("loss", "fused", *cut);
    if (const Setting* unsloth = said_.Yes({"use_unsloth"})) {
      Add("loss", "in-place", *unsloth);
      return Add("fused-layers", "on", *unsloth);
    }
    const Setting* loss = said_.Value({"loss._component_"});
    if (loss != nullptr &&
        (loss->value.contains("Chunked") || loss->value.contains("LinearCrossEntropy")))
      return Add("loss", "chunked", *loss);
    AddYes("loss", "chunked", {"chunked_cross_entropy"});
  }

  // ---- several GPUs ----

  // Reads tensor, pipeline and context parallelism from the names used by Megatron, by programs
  // built on Megatron, and by torchtitan.
  void Splits() {
    AddNumber("tp", {"tensor_model_parallel_size", "tensor_parallel_degree"});
    AddNumber("pp", {"pipeline_model_parallel_size", "pipeline_parallel_degree"});
    AddNumber("cp", {"context_parallel_size", "context_parallel_degree"});
    AddNumber("ep", {"expert_model_parallel_size", "expert_parallel_degree"});
    AddYes("sequence-parallel", "on", {"sequence_parallel", "enable_sequence_parallel"});
  }

  void Gpus() {
    const Setting* include = said_.Value({"include"});
    if (include != nullptr && include->value.contains(":")) {
      const auto devices = std::ranges::count(include->value, ',') + 1;
      return Add("gpus", std::to_string(devices), *include);
    }
    const Setting* processes = said_.Value(
        {"nproc_per_node", "num_processes", "num_gpus", "n_gpus", "gpus_per_node", "devices"});
    if (processes == nullptr) return;
    if (const auto number = base::ParseInt(processes->value); number && *number > 0)
      Add("gpus", std::to_string(*number), *processes);
  }

  void Fsdp() {
    const Setting* kind =
        said_.Value({"fsdp_config.fsdp_sharding_strategy", "fsdp_sharding_strategy",
                     "fsdp_config.sharding_strategy", "sharding_strategy"});
    const Setting* asked = said_.Value({"fsdp", "use_fsdp", "enable_fsdp"});
    const Setting* type = said_.Value({"distributed_type"});
    const bool by_type = type != nullptr && base::ToLower(type->value) == "fsdp";
    const bool by_recipe = framework_ == Framework::kTorchtune && said_.Yes({"distributed_recipe"});
    if (by_type) asked = type;
    if (by_recipe) asked = said_.Any({"distributed_recipe"});
    if (asked == nullptr) return;
    // The strategy is part of this value, or a setting of its own.
    const bool names_kind = base::ToLower(asked->value).contains("shard");
    const std::string what = base::ToLower((kind == nullptr || names_kind ? asked : kind)->value);
    if (what.contains("no_shard") || what == "3") {
      Add("dp", "ddp", *asked);
    } else {
      Add("dp", what.contains("shard_grad_op") || what == "2" ? "zero2" : "fsdp", *asked);
    }
    if (base::ToLower(asked->value).contains("offload")) AddOffload("optimizer,params", *asked);
    if (const Setting* offload =
            said_.Yes({"fsdp_config.fsdp_offload_params", "fsdp_config.offload_params",
                       "fsdp_offload_params", "fsdp_cpu_offload"}))
      AddOffload("optimizer,params", *offload);
  }

  // Reads Lightning's strategies, such as "fsdp" or "deepspeed_stage_2_offload".
  void LightningStrategy() {
    const Setting* strategy = said_.Value({"strategy"});
    if (strategy == nullptr) return;
    const std::string name = base::ToLower(strategy->value);
    if (name.contains("fsdp")) return Add("dp", "fsdp", *strategy);
    for (const char stage : {'1', '2', '3'}) {
      if (name.contains(fmt::format("deepspeed_stage_{}", stage)))
        Add("dp", fmt::format("zero{}", stage), *strategy);
    }
    if (name.contains("deepspeed") && name.contains("offload")) AddOffload("optimizer", *strategy);
  }

  // Reads the Accelerate settings that replace a DeepSpeed file.
  void DeepSpeed() {
    const Setting* stage = said_.Value({"deepspeed_config.zero_stage", "zero_stage"});
    if (stage == nullptr) return;
    const std::int64_t number = base::ParseInt(stage->value).value_or(0);
    Add("deepspeed-engine", "on", *stage);
    if (number >= 1 && number <= 3) Add("dp", fmt::format("zero{}", number), *stage);
    if (said_.Value({"deepspeed_config.offload_optimizer_device", "offload_optimizer_device"}))
      AddOffload("optimizer", *stage);
    if (said_.Value({"deepspeed_config.offload_param_device", "offload_param_device"}))
      AddOffload("params", *stage);
  }

  StatedSettings said_;
  Framework framework_;
  bool lora_ = false;
  Meaning meaning_;
};

}  // namespace

Meaning MeaningOf(const std::vector<Setting>& settings, Framework framework) {
  return Reader(settings, framework).Read();
}

}  // namespace carma::estimate

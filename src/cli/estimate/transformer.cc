#include "cli/estimate/transformer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "estimate/transformer/plan_files.h"

namespace carma::cli {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using estimate::MemoryBound;
using estimate::MemoryParts;
using estimate::TrainingPlan;
using estimate::TransformerConfig;
using estimate::TransformerEstimate;

constexpr double kUsualCoverage = 0.9;
constexpr std::int64_t kMostGpus = 100'000;

std::unexpected<base::Error> Wrong(const char* option, std::string_view said,
                                   std::string_view expected) {
  return Fail(ErrorCode::kInvalid,
              fmt::format("{}: '{}': expected {}", option, base::Printable(said, 40), expected));
}

// An empty word leaves the target.
template <class Enum>
Result<base::Unit> Set(const char* option, const std::string& word, Enum& target) {
  if (word.empty()) return base::Unit{};
  std::string name = base::ToLower(word);
  for (char& c : name) c = c == '_' ? '-' : c;
  const std::optional<Enum> known = base::FromWord<Enum>(name);
  if (!known) return Wrong(option, word, base::AllWords<Enum>());
  target = *known;
  return base::Unit{};
}

Result<base::Unit> SetNumber(const char* option, const std::string& text, std::int64_t most,
                             std::int64_t& target) {
  if (text.empty()) return base::Unit{};
  const std::optional<std::int64_t> number = base::ParseInt(text);
  if (!number || *number < 1 || *number > most)
    return Wrong(option, text, fmt::format("a number from 1 to {}", most));
  target = *number;
  return base::Unit{};
}

// --weights names a precision or a kind of quantisation; without it config.json counts.
Result<base::Unit> SetWeights(const TransformerFlags& flags, const TransformerConfig& config,
                              TrainingPlan& plan) {
  plan.weights = config.dtype.value_or(estimate::Dtype::kBf16);
  plan.quantisation = config.quantisation.value_or(estimate::Quantisation::kNone);
  if (flags.weights.empty()) return base::Unit{};
  const std::string word = base::ToLower(flags.weights);
  const auto dtype = base::FromWord<estimate::Dtype>(word);
  const auto quantisation = base::FromWord<estimate::Quantisation>(word);
  if (!dtype && !quantisation)
    return Wrong(
        "--weights", flags.weights,
        base::AllWords<estimate::Dtype>() + ", or " + base::AllWords<estimate::Quantisation>());
  if (dtype) {
    plan.weights = *dtype;
    plan.quantisation = estimate::Quantisation::kNone;
  } else {
    plan.quantisation = *quantisation;
  }
  return base::Unit{};
}

Result<base::Unit> SetMethod(const TransformerFlags& flags, TrainingPlan& plan) {
  const bool adapters = flags.method.empty() && !flags.adapter_config.empty();
  const std::string method = adapters ? "lora" : flags.method;
  const bool quantised = method == "qlora";
  if (quantised) {
    plan.method = estimate::Method::kLora;
    if (plan.quantisation == estimate::Quantisation::kNone)
      plan.quantisation = estimate::Quantisation::kNf4;
  } else if (Result<base::Unit> set = Set("--method", method, plan.method); !set) {
    return Wrong("--method", flags.method, "full, lora or qlora");
  }
  // What TRL, Axolotl and LLaMA-Factory call before they train adapters on quantised weights.
  const bool prepared = plan.method == estimate::Method::kLora && !flags.unprepared &&
                        (plan.quantisation == estimate::Quantisation::kNf4 ||
                         plan.quantisation == estimate::Quantisation::kNf4Double);
  plan.fp32_residual = plan.fp32_rest = prepared;
  const Result<estimate::LoraTargets> targets = estimate::ParseLoraTargets(flags.lora_targets);
  if (!targets) return Fail(ErrorCode::kInvalid, "--lora-targets: " + targets.error().message);
  plan.lora_targets = *targets;
  plan.lora_rank = flags.lora_rank;
  plan.lora_dropout = flags.lora_dropout;
  plan.trains_embeddings = flags.train_embeddings;
  return base::Unit{};
}

Result<base::Unit> SetParallel(const TransformerFlags& flags, TrainingPlan& plan) {
  plan.tensor_parallel = flags.tensor_parallel;
  plan.pipeline = flags.pipeline;
  plan.context_parallel = flags.context_parallel;
  const std::int64_t one_copy = plan.tensor_parallel * plan.pipeline * plan.context_parallel;
  std::int64_t gpus = one_copy;
  if (Result<base::Unit> set = SetNumber("--gpus", flags.gpus, kMostGpus, gpus); !set) return set;
  if (gpus % one_copy != 0)
    return Wrong("--gpus", std::to_string(gpus),
                 fmt::format("a multiple of --tp x --pp x --cp, which is {}", one_copy));
  plan.ranks = gpus / one_copy;
  for (const std::string_view word : base::Split(flags.offload, ',')) {
    const std::string what = base::ToLower(base::Trim(word));
    if (what == "optimizer") {
      plan.offload_optimizer = true;
    } else if (what == "params" || what == "parameters") {
      plan.offload_parameters = true;
    } else if (!what.empty()) {
      return Wrong("--offload", word, "optimizer, params or both with a comma");
    }
  }
  return Set("--dp", flags.data_parallel, plan.data_parallel);
}

Result<base::Unit> SetTokens(const TransformerFlags& flags, TrainingPlan& plan) {
  if (flags.packed && (flags.variable_length || flags.mean_length > 0)) {
    return Fail(ErrorCode::kInvalid, "--packed: expected without --variable-length and --mean-len");
  }
  plan.sequence = flags.sequence;
  plan.variable_length = flags.variable_length || flags.mean_length > 0;
  if (flags.mean_length > 0) plan.mean_length = flags.mean_length;
  plan.accumulates = flags.accumulates;
  plan.amp = flags.amp;
  plan.fused_layers = flags.fused_layers;
  if (flags.gpu_mib > 0) plan.gpu_mib = static_cast<double>(flags.gpu_mib);
  if (flags.fused_loss) plan.loss = estimate::Loss::kFused;
  return SetNumber("--batch", flags.batch, 1'000'000, plan.batch);
}

// What the files say counts before the options.
Result<base::Unit> ReadFiles(const TransformerFlags& flags, TrainingPlan& plan) {
  const auto apply = [&](const std::string& path, auto reader) -> Result<base::Unit> {
    if (path.empty()) return base::Unit{};
    const Result<std::string> text = ReadNamed(path, estimate::kMaxConfigBytes);
    if (!text) return std::unexpected(text.error());
    return reader(*text, path, plan);
  };
  if (Result<base::Unit> read = apply(flags.deepspeed, &estimate::ApplyDeepSpeed); !read)
    return read;
  return apply(flags.adapter_config, &estimate::ApplyAdapterConfig);
}

// The parts under their names in JSON and in text.
std::array<std::pair<const char*, double>, 8> NamedParts(const TransformerEstimate& estimate) {
  const MemoryParts& parts = estimate.parts;
  return {{{"weights", parts.weights},
           {"gradients", parts.gradients},
           {"optimizer", parts.optimizer},
           {"logits", parts.logits},
           {"activations", parts.activations},
           {"working", parts.working},
           {"fragmentation", estimate.fragmentation_mib},
           {"context", estimate.context_mib}}};
}

const char* PhaseText(estimate::TrainingPhase phase) {
  switch (phase) {
    case estimate::TrainingPhase::kStep:
      return "the optimizer's step";
    case estimate::TrainingPhase::kLoss:
      return "the loss";
    case estimate::TrainingPhase::kLayer:
      return "the backward pass of the last block";
    case estimate::TrainingPhase::kEnd:
      return "the end of the backward pass";
    case estimate::TrainingPhase::kSave:
      return "gathering the weights to save them";
  }
  return "";
}

}  // namespace

void AddTransformerOptions(CLI::App& verb, TransformerFlags& flags) {
  const std::string group = "With --hf-config";
  const auto add = [&](const char* name, std::string& target, const char* help, const char* type) {
    verb.add_option(name, target, help)->type_name(type)->group(group);
  };
  const auto count = [&](const char* name, std::int64_t& target, const char* help,
                         std::int64_t most) {
    verb.add_option(name, target, help)
        ->type_name("N")
        ->group(group)
        ->check(CLI::Range(std::int64_t{1}, most));
  };
  const auto flag = [&](const char* name, bool& target, const char* help) {
    verb.add_flag(name, target, help)->group(group);
  };
  add("--hf-config", flags.config, "config.json of a Hugging Face transformer, in place of FILE",
      "FILE");
  add("--adapter-config", flags.adapter_config, "PEFT's adapter_config.json; implies lora", "FILE");
  add("--deepspeed", flags.deepspeed, "DeepSpeed's configuration, JSON", "FILE");
  count("--seq-len", flags.sequence, "tokens of a sample, of the longest if they vary (2048)",
        1'000'000'000);
  count("--mean-len", flags.mean_length,
        "tokens of the other samples, where a batch is laid out without padding", 1'000'000'000);
  add("--method", flags.method, "full, lora, qlora (full)", "NAME");
  count("--lora-rank", flags.lora_rank, "rank of the adapters (16)", 1'000'000);
  add("--lora-targets", flags.lora_targets,
      "matrices with adapters: q,k,v,o,gate,up,down, attention, mlp, all (q,v)", "LIST");
  flag("--lora-dropout", flags.lora_dropout, "the adapters drop inputs out");
  flag("--train-embeddings", flags.train_embeddings, "modules_to_save: embedding and head");
  flag("--unprepared", flags.unprepared, "without prepare_model_for_kbit_training");
  flag("--amp", flags.amp, "autocast; with fsdp: its mixed precision (Trainer: bf16 or fp16)");
  add("--gradient-checkpointing", flags.checkpointing, "none, selective, full (none)", "NAME");
  add("--attention", flags.attention, "flash (also sdpa), eager (flash)", "NAME");
  add("--loss", flags.loss, "stock, in-place, split, chunked, fused (stock)", "NAME");
  flag("--fused-loss", flags.fused_loss, "--loss fused");
  flag("--fused-layers", flags.fused_layers, "norms by fused kernels");
  flag("--grad-accum", flags.accumulates, "gradients are kept over several passes");
  flag("--packed", flags.packed, "every sample as long as --seq-len: what is assumed");
  flag("--variable-length", flags.variable_length, "samples of changing lengths");
  add("--dp", flags.data_parallel, "ddp, fsdp, zero1, zero2, zero3 (ddp)", "NAME");
  add("--offload", flags.offload, "optimizer, params to the host's memory", "LIST");
  count("--tp", flags.tensor_parallel, "GPUs that share each matrix (1)", kMostGpus);
  count("--pp", flags.pipeline, "pipeline stages (1)", kMostGpus);
  count("--cp", flags.context_parallel, "GPUs that share each sample (1)", kMostGpus);
  verb.add_option("--gpu-memory", flags.gpu_mib, "of the GPU: near it the allocator gives back")
      ->type_name("MIB")
      ->group(group)
      ->check(CLI::PositiveNumber);
}

Result<TrainingPlan> PlanOf(const TransformerFlags& flags, const TransformerConfig& config) {
  TrainingPlan plan;
  for (const Result<base::Unit>& set :
       {SetTokens(flags, plan), SetWeights(flags, config, plan), SetMethod(flags, plan),
        Set("--optimizer", flags.optimizer, plan.optimizer),
        Set("--gradient-checkpointing", flags.checkpointing, plan.checkpointing),
        Set("--attention", flags.attention, plan.attention), Set("--loss", flags.loss, plan.loss),
        SetParallel(flags, plan)}) {
    if (!set) return std::unexpected(set.error());
  }
  if (Result<base::Unit> read = ReadFiles(flags, plan); !read) return std::unexpected(read.error());
  return plan;
}

std::string TransformerText(const std::string& file, const TransformerConfig& config,
                            const TrainingPlan& plan, const TransformerEstimate& estimate) {
  std::string text = fmt::format("{}: {}, {} layers, {:.1f} M parameters, {:.1f} M trained\n",
                                 base::Printable(file, 4096), config.family, config.layers,
                                 estimate.parameters / 1e6, estimate.trained_parameters / 1e6);
  text += fmt::format("{} x {} tokens per GPU and step; highest at {}\n\n", plan.batch,
                      plan.sequence, PhaseText(estimate.phase));
  Table parts({{"PART"}, {"MIB", true}});
  for (const auto& [name, mib] : NamedParts(estimate))
    parts.Add({{name}, {fmt::format("{:.0f}", mib)}});
  text += parts.Text(Screen{}) + "\n";
  Table sums({{"MEMORY"}, {"POINT", true}, {"BOUND", true}, {"MEANING"}});
  const auto add = [&](const char* name, const MemoryBound& bound, const char* meaning) {
    sums.Add(
        {{name}, {std::to_string(bound.point_mib)}, {std::to_string(bound.bound_mib)}, {meaning}});
  };
  add("needed", estimate.needed, "allocated by PyTorch");
  add("reserved", estimate.reserved, "with what its allocator keeps");
  add("shown", estimate.shown, "by nvidia-smi: what to book on each GPU");
  text += sums.Text(Screen{});
  text += fmt::format("\nMiB on the GPU that needs most; BOUND covers {:g} % of such runs.\n",
                      100 * estimate.coverage);
  for (const std::string& warning : estimate.warnings) text += "note: " + warning + "\n";
  return text;
}

std::string TransformerJson(const std::string& file, const TransformerConfig& config,
                            const TransformerEstimate& estimate) {
  base::Json parts = base::Json::object();
  for (const auto& [name, mib] : NamedParts(estimate)) parts[fmt::format("{}_mib", name)] = mib;
  const auto bound = [](const MemoryBound& each) {
    return base::Json{{"point_mib", each.point_mib}, {"bound_mib", each.bound_mib}};
  };
  return base::DumpJson({{"file", file},
                         {"method", "transformer"},
                         {"family", config.family},
                         {"parameters", std::llround(estimate.parameters)},
                         {"trained_parameters", std::llround(estimate.trained_parameters)},
                         {"phase", base::WordOf(estimate.phase)},
                         {"parts", std::move(parts)},
                         {"needed", bound(estimate.needed)},
                         {"reserved", bound(estimate.reserved)},
                         {"shown", bound(estimate.shown)},
                         {"point_mib", estimate.shown.point_mib},
                         {"bound_mib", estimate.shown.bound_mib},
                         {"coverage", estimate.coverage},
                         {"warnings", estimate.warnings}}) +
         "\n";
}

void RunTransformer(Context& context, const TransformerFlags& flags) {
  const Result<std::string> text = ReadInput(flags.config, estimate::kMaxConfigBytes);
  if (!text) return context.Fail(text.error());
  const std::string name = InputName(flags.config);
  const Result<TransformerConfig> config = estimate::ParseTransformerConfig(*text, name);
  if (!config) return context.Fail(config.error());
  const Result<TrainingPlan> plan = PlanOf(flags, *config);
  if (!plan) return context.Fail(plan.error());
  const Result<TransformerEstimate> estimate = estimate::EstimateTransformer(
      *config, *plan, flags.coverage > 0 ? flags.coverage : kUsualCoverage);
  if (!estimate) return context.Fail(estimate.error());
  Print(context, context.json ? TransformerJson(name, *config, *estimate)
                              : TransformerText(name, *config, *plan, *estimate));
}

}  // namespace carma::cli

#include "estimate/transformer/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"
#include "estimate/transformer_family.h"

namespace carma::estimate {
namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{64} << 20;
constexpr double kMibPerGib = 1024;

// Reads a number from a cell. An empty cell leaves `target` unchanged. An invalid cell sets
// `error`. Returns true if a number was read.
bool Take(const base::CsvRow& row, const char* column, double low, double high,
          std::int64_t& target, std::optional<base::Error>& error) {
  const Result<std::optional<double>> number = row.Number(column, low, high);
  if (!number) {
    if (!error) error = number.error();
    return false;
  }
  if (!number->has_value()) return false;
  target = std::llround(**number);
  return true;
}

Result<TransformerConfig> ConfigOf(const base::CsvRow& row) {
  TransformerConfig config;
  std::optional<base::Error> error;
  Take(row, "layers", 1, 1e4, config.layers, error);
  Take(row, "hidden", 1, 1e7, config.hidden, error);
  Take(row, "heads", 1, 1e7, config.heads, error);
  Take(row, "kv_heads", 1, 1e7, config.kv_heads, error);
  Take(row, "head_dim", 1, 1e7, config.head_width, error);
  Take(row, "intermediate", 1, 1e7, config.feed_forward, error);
  Take(row, "vocab", 0, 1e8, config.vocabulary, error);
  Take(row, "experts", 1, 1e4, config.experts, error);
  Take(row, "active_experts", 1, 1e4, config.active_experts, error);
  const Result<std::optional<double>> parameters = row.Number("params_b", 1e-6, 1e6);
  if (!parameters && !error) error = parameters.error();
  if (error) return std::unexpected(*error);
  if (config.layers == 0 || config.hidden == 0 || config.heads == 0 || config.feed_forward == 0)
    return row.Wrong("expected values for layers, hidden, heads and intermediate");
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_width == 0)
    config.head_width = std::max<std::int64_t>(1, config.hidden / config.heads);
  if (*parameters) config.stated_parameters = **parameters * 1e9;
  config.family = row.Text("family");
  // If the Transformers library has this family, adds the properties that are fixed in its code.
  if (const TransformerFamily* known = FindFamily(config.family)) {
    config.norms_heads = known->norms_heads;
    config.norms = known->norms;
    config.wide_scores = known->wide_scores;
    config.one_projection = known->one_projection;
    config.plain_loss = known->plain_loss;
  }
  config.gated = row.Text("mlp") == "gated";
  config.written_out_gelu = row.Text("mlp") == "gelu_new";
  config.drops_out = config.drops_scores = row.Text("dropout") == "1";
  config.capped_scores = row.Text("capped") == "1";
  config.classifies = row.Text("classes") == "1";
  config.rms_norm = row.Text("norm") == "rms";
  config.tied = row.Text("tied") == "1";
  return config;
}

using NamesOfModels = std::map<std::string, std::size_t, std::less<>>;  // including aliases

struct Models {
  std::vector<TransformerConfig> configs;
  NamesOfModels by_name;
};

Result<Unit> AddModels(const std::string& path, Models& models) {
  const base::CsvTable table = CARMA_TRY(base::CsvTable::Read(
      path, {"model", "layers", "hidden", "heads", "intermediate", "vocab", "mlp", "norm"},
      kMaxTableBytes));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const base::CsvRow row = table.Row(i);
    TransformerConfig config = CARMA_TRY(ConfigOf(row));
    models.by_name.emplace(row.Text("model"), models.configs.size());
    for (const std::string_view alias : base::Split(row.Text("aliases"), '|')) {
      if (!alias.empty()) models.by_name.emplace(alias, models.configs.size());
    }
    models.configs.push_back(std::move(config));
  }
  return Unit{};
}

// ---- a plan from the words of a row ----

std::unexpected<base::Error> TooLittle(std::string text) {
  return NotFound(std::move(text));
}

// Training libraries whose defaults affect memory.
enum class Library { kHuggingFace, kLitGpt, kTorchtune };
Library LibraryOf(std::string_view framework) {
  if (framework.contains("LitGPT")) return Library::kLitGpt;
  if (framework.contains("torchtune")) return Library::kTorchtune;
  return Library::kHuggingFace;
}

Result<Unit> SetMethod(const base::CsvRow& row, Library library, TrainingPlan& plan) {
  const std::string_view method = row.Text("method");
  if (method != "full" && method != "lora" && method != "lora+emb" && method != "qlora")
    return TooLittle(fmt::format("method '{}' is not modelled", base::Printable(method, 40)));
  plan.method = method == "full" ? Method::kFull : Method::kLora;
  plan.trains_embeddings = method == "lora+emb";
  const std::string_view quantisation = row.Text("wquant");
  if (!quantisation.empty()) {
    const std::optional<Quantisation> known = base::FromWord<Quantisation>(quantisation);
    if (!known)
      return TooLittle(
          fmt::format("quantisation '{}' is not modelled", base::Printable(quantisation, 40)));
    plan.quantisation = *known;
  } else if (method == "qlora") {
    plan.quantisation = Quantisation::kNf4;
  }
  // PEFT recipes also quantise the scales; for LitGPT, the row says whether they are quantised.
  if (plan.quantisation == Quantisation::kNf4 && library == Library::kHuggingFace)
    plan.quantisation = Quantisation::kNf4Double;
  if (plan.method == Method::kFull) return Unit{};
  plan.lora_16bit = library != Library::kHuggingFace;
  plan.keeps_frozen_inputs =
      library == Library::kLitGpt &&
      (plan.quantisation == Quantisation::kNf4 || plan.quantisation == Quantisation::kNf4Double);
  if (plan.lora_rank == 0) plan.lora_rank = 8;
  const Result<std::optional<double>> dropout = row.Number("lora_dropout", 0, 1);
  plan.lora_dropout = dropout && dropout->value_or(0) > 0;
  // Reduces "DEFAULT (qkv)", "q,v,o + mlp" or a Python list to words. The head's adapter is dropped
  // because it is negligible.
  std::string words;
  for (const char c : row.Text("lora_targets")) {
    if (c == '(') words.clear();
    const bool parts = c == '+' || c == ' ' || c == ';' || c == '|';
    if (!std::string_view("()[]{}'\"").contains(c)) words += parts ? ',' : c;
  }
  words = base::ToLower(words);
  std::string known;
  for (const std::string_view word : base::Split(words, ',')) {
    if (word.empty() || word == "head" || word == "linear") continue;
    known += (known.empty() ? "" : ",") + std::string(word.contains("all") ? "all" : word);
  }
  if (known.empty() || known == "default") known = "q,v";
  const Result<LoraTargets> targets = ParseLoraTargets(known);
  if (!targets) return TooLittle("lora_targets: " + targets.error().message);
  plan.lora_targets = *targets;
  return Unit{};
}

Result<Unit> SetPrecision(const base::CsvRow& row, Library library, TrainingPlan& plan) {
  const std::optional<Dtype> dtype = base::FromWord<Dtype>(row.Text("wdtype"));
  if (!dtype) return TooLittle("the weight precision is not stated");
  plan.weights = *dtype;
  const std::string_view amp = row.Text("amp");
  plan.amp = !amp.empty() && !amp.ends_with("-true");
  // PEFT recipes cast all weights to fp32, except those quantised by bitsandbytes. fms-acceleration
  // casts only the norms, and casts nothing with FSDP.
  const bool own = row.Text("framework").contains("fms-acceleration");
  const bool nf4 =
      plan.quantisation == Quantisation::kNf4 || plan.quantisation == Quantisation::kNf4Double;
  const bool prepared = library == Library::kHuggingFace && !own && plan.method == Method::kLora &&
                        nf4 && row.Text("n_gpu") == "1";
  plan.fp32_rest = prepared;
  plan.fp32_residual = prepared || (library == Library::kHuggingFace && row.Text("n_gpu") == "1" &&
                                    row.Text("note").contains("baseline-peft"));
  return Unit{};
}

Result<Unit> SetOptimizer(const base::CsvRow& row, TrainingPlan& plan) {
  const std::string name = base::ToLower(row.Text("optimizer"));
  plan.step_in_backward = name.contains("step in backward");
  if (name.contains("galore") || name.contains("lisa") || name.empty() || name.contains("?"))
    return TooLittle("the optimizer is not stated or not modelled");
  if (name.contains("paged")) {
    plan.optimizer = StepOptimizer::kPagedAdam;
  } else if (name.contains("4bit")) {
    plan.optimizer = StepOptimizer::kAdam4Bit;
  } else if (name.contains("8bit") || name.contains("fp8")) {
    plan.optimizer = StepOptimizer::kAdam8Bit;
  } else if (name.contains("fused")) {
    plan.optimizer = StepOptimizer::kAdamFused;
  } else if (name.contains("adam")) {
    plan.optimizer = StepOptimizer::kAdam;
  } else if (const auto known = base::FromWord<StepOptimizer>(name)) {
    plan.optimizer = *known;
  } else {
    return TooLittle(fmt::format("optimizer '{}' is not modelled", base::Printable(name, 40)));
  }
  return Unit{};
}

// The number that follows `word` in the text. Empty if the word is missing.
std::optional<std::int64_t> NumberAfter(std::string_view text, std::string_view word) {
  const std::size_t found = text.find(word);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = base::Trim(text.substr(found + word.size()));
  rest = rest.substr(0, rest.find_first_not_of("0123456789"));
  const std::optional<std::int64_t> number = base::ParseInt(rest);
  return number && *number >= 1 && *number <= 1'000'000'000 ? number : std::nullopt;
}

bool IsMegatron(std::string_view framework) {
  return framework.contains("Megatron") || framework.contains("NeMo");
}

// Reads forms such as "selective (every 2nd block)", "selective 2", "selective half" and "selective
// op".
void SetCheckpointing(const base::CsvRow& row, Library library, TrainingPlan& plan) {
  const std::string kept = base::ToLower(row.Text("ckpt"));
  const bool if_sharded = library == Library::kLitGpt && plan.ranks == 1;
  if (kept.starts_with("full") && !if_sharded) plan.checkpointing = Checkpointing::kFull;
  if (!kept.starts_with("selective")) return;
  const bool megatron = IsMegatron(row.Text("framework"));
  const bool core =
      kept.contains("attention") || kept.contains("core") || (megatron && !kept.contains("op"));
  plan.checkpointing = core ? Checkpointing::kAttention : Checkpointing::kOperators;
  std::optional<std::int64_t> every = NumberAfter(kept, "every");
  if (const std::size_t digit = kept.find_first_of("0123456789"); !every && digit != kept.npos)
    every = NumberAfter(kept.substr(digit), "");
  if (kept.contains("half") || kept.contains("second")) every = 2;
  if (!every) return;
  plan.checkpointing = Checkpointing::kFull;
  plan.checkpoint_every = *every;
}

void SetLayers(const base::CsvRow& row, Library library, TrainingPlan& plan) {
  SetCheckpointing(row, library, plan);
  if (row.Text("attn") == "eager") plan.attention = Attention::kEager;
  const std::string_view fused = row.Text("fused");
  plan.fused_layers = fused.contains("triton") || fused.contains("compile");
  if (library == Library::kLitGpt) plan.loss = Loss::kSplit;
  if (library == Library::kTorchtune) plan.loss = Loss::kChunked;
  if (fused.contains("triton")) plan.loss = Loss::kInPlace;
  if (fused.contains("liger")) plan.loss = Loss::kFused;
}

Result<Unit> SetParallel(const base::CsvRow& row, Library library, std::int64_t all,
                         TrainingPlan& plan) {
  const std::string_view kind = row.Text("parallel");
  const std::int64_t ranks = plan.ranks;
  plan.ranks = 1;
  plan.deepspeed = row.Text("framework").contains("DeepSpeed") && plan.method == Method::kFull;
  plan.offload_optimizer = row.Text("offload").contains("optimizer");
  plan.offload_parameters = row.Text("offload").contains("param");
  plan.offload_activations = row.Text("offload").contains("activation");
  if (kind.contains("not stated") || kind.empty()) return Unit{};
  const std::int64_t one_copy = plan.tensor_parallel * plan.pipeline * plan.context_parallel;
  const bool splits = one_copy > 1;
  const std::int64_t copies = std::max<std::int64_t>(1, all / one_copy);
  if (kind == "ddp") {
    plan.ranks = copies;
    return Unit{};
  }
  if (kind.contains("fsdp")) {
    plan.data_parallel = DataParallel::kFsdp;
    plan.saves_whole_model = library == Library::kLitGpt;
  } else if (kind.contains("zero1")) {
    plan.data_parallel = DataParallel::kZero1;
  } else if (kind.contains("zero2")) {
    plan.data_parallel = DataParallel::kZero2;
  } else if (kind.contains("zero3")) {
    plan.data_parallel = DataParallel::kZero3;
  } else if (kind == "layer-split") {
    plan.in_flight = 1;
    plan.pipeline = all;
    return Unit{};
  } else if (splits) {
    return Unit{};  // stated in the columns tp, pp and cp
  } else {
    return TooLittle(fmt::format("parallel '{}' is not modelled", base::Printable(kind, 40)));
  }
  plan.ranks = ranks > 0 ? ranks : copies;
  // The `shards` column may include the GPUs that share a sample, but context_parallel already
  // counts these.
  if (plan.ranks > copies && plan.ranks % plan.context_parallel == 0)
    plan.ranks /= plan.context_parallel;
  return Unit{};
}

// Returns true if the library uses Hugging Face's Trainer or behaves like it.
bool IsOfTrainer(std::string_view framework) {
  const std::string name = base::ToLower(framework);
  constexpr std::string_view kNames[] = {"hf",      "trainer", "trl",    "axolotl",
                                         "swift",   "peft",    "fms",    "accelerate",
                                         "unsloth", "factory", "hugging"};
  return name.empty() ||
         std::ranges::any_of(kNames, [&](std::string_view each) { return name.contains(each); });
}

// Sets the tensor and pipeline parallelism options from the row's columns or the framework's
// defaults.
void SetSplits(const base::CsvRow& row, std::optional<base::Error>& error, TrainingPlan& plan) {
  const std::string_view framework = row.Text("framework");
  const bool titan = base::ToLower(framework).contains("torchtitan");
  const std::string_view sp = row.Text("sp");
  plan.sequence_parallel =
      plan.tensor_parallel > 1 &&
      (sp == "1" ||
       (sp.empty() && (titan || IsMegatron(framework) ||
                       base::ToLower(row.Text("note")).contains("sequence parallel"))));
  Take(row, "ep", 1, 1e5, plan.expert_parallel, error);
  const bool parts = Take(row, "micro_batches", 1, 1e6, plan.micro_batches, error);
  if (!parts && titan && plan.pipeline > 1)
    plan.micro_batches = std::min(plan.batch, plan.pipeline);
  if (const auto known = base::FromWord<Schedule>(base::ToLower(row.Text("schedule"))))
    plan.schedule = *known;
  // Without the Trainer's autocast, FSDP trains in the precision of the loaded weights.
  if (plan.data_parallel == DataParallel::kFsdp && plan.weights != Dtype::kFp32 &&
      !IsOfTrainer(framework))
    plan.amp = false;
}

// If the row mentions the distributed optimizer, the optimizer's states are sharded over all GPUs
// that hold the same part of the model.
void SetMegatron(const base::CsvRow& row, std::int64_t gpus, TrainingPlan& plan) {
  UseMegatron(plan);
  if (!base::ToLower(row.Text("optimizer")).contains("distributed") &&
      !base::ToLower(row.Text("note")).contains("distributed"))
    return;
  plan.data_parallel = DataParallel::kZero1;
  const std::int64_t one_copy = plan.tensor_parallel * plan.pipeline * plan.context_parallel;
  plan.ranks = std::max(plan.ranks, gpus / one_copy);
}

// The memory of a GPU, from a name such as "A100-80GB". nvidia-smi reports 1 % less than the name
// promises: 79.2 GiB.
std::optional<double> GpuMib(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || !name.ends_with("GB")) return std::nullopt;
  const auto size = base::ParseInt(name.substr(dash + 1, name.size() - dash - 3));
  if (!size || *size < 1 || *size > 10'000) return std::nullopt;
  return 0.99 * static_cast<double>(*size) * kMibPerGib;
}

// The longest sample in a few hundred steps, as a fraction of the length cap. The ratio comes from
// the one source that reports both lengths.
constexpr double kLongestOfCap = 0.6;

// Reads the lengths from a note such as "variable, mean 445 tokens, cap 4096". Called for rows that
// have no sequence length.
bool SetLengths(std::string_view note, TrainingPlan& plan) {
  const std::optional<std::int64_t> cap = NumberAfter(note, "cap ");
  if (!cap) return false;
  const std::optional<std::int64_t> mean = NumberAfter(note, "mean ");
  plan.sequence = *cap;
  if (mean)
    plan.sequence =
        std::max(*mean, static_cast<std::int64_t>(kLongestOfCap * static_cast<double>(*cap)));
  if (note.contains("padding free")) plan.mean_length = mean;
  return true;
}

Result<TrainingPlan> PlanOf(const base::CsvRow& row, std::int64_t gpus,
                            std::optional<base::Error>& error) {
  TrainingPlan plan;
  const Library library = LibraryOf(row.Text("framework"));
  bool tokens = Take(row, "seq_len", 1, 1e9, plan.sequence, error);
  const bool batch = Take(row, "micro_batch", 1, 1e6, plan.batch, error);
  std::int64_t steps = 1;
  const bool stated = Take(row, "grad_accum", 1, 1e6, steps, error);
  plan.lora_rank = 8;
  Take(row, "lora_r", 0, 1e6, plan.lora_rank, error);
  plan.ranks = 0;  // not stated
  Take(row, "shards", 1, 1e5, plan.ranks, error);
  Take(row, "tp", 1, 1e5, plan.tensor_parallel, error);
  Take(row, "pp", 1, 1e5, plan.pipeline, error);
  Take(row, "cp", 1, 1e5, plan.context_parallel, error);
  if (error) return std::unexpected(*error);
  const std::string_view lengths = row.Text("seq_note");
  plan.variable_length =
      lengths.contains("variable") || lengths.contains("max length") || lengths.contains("dataset");
  // If lengths vary and the row does not give the number of accumulation steps, assume that there
  // are several.
  plan.accumulates = steps > 1 || (!stated && plan.variable_length);
  tokens = tokens || SetLengths(lengths, plan);
  if (!tokens) return TooLittle("the sample length is not stated");
  if (!batch) return TooLittle("the batch size is not stated");
  plan.unties_head = library == Library::kLitGpt;
  plan.expandable_segments = row.Text("expandable") == "1";
  plan.gpu_mib = GpuMib(row.Text("gpu"));
  Result<Unit> done = SetMethod(row, library, plan);
  if (done) done = SetPrecision(row, library, plan);
  if (done) done = SetOptimizer(row, plan);
  if (done) done = SetParallel(row, library, gpus, plan);
  if (!done) return std::unexpected(done.error());
  SetSplits(row, error, plan);
  SetLayers(row, library, plan);
  if (IsMegatron(row.Text("framework")) && plan.method == Method::kFull)
    SetMegatron(row, gpus, plan);
  if (error) return std::unexpected(*error);
  return plan;
}

// ---- measurements ----

MemoryKind KindOf(std::string_view definition) {
  const std::string text = base::ToLower(definition);
  if (text.contains("nvidia-smi") || text.contains("nvml")) return MemoryKind::kShown;
  if (text.contains("reserved") && !text.contains("allocated")) return MemoryKind::kReserved;
  if (text.contains("allocated") || text.contains("torch peak")) return MemoryKind::kAllocated;
  return MemoryKind::kUnstated;
}

void AddMeasured(const base::CsvRow& row, const char* column, const char* definition,
                 std::int64_t gpus, std::vector<MeasuredMemory>& measured,
                 std::optional<base::Error>& error) {
  const Result<std::optional<double>> gib = row.Number(column, 1e-3, 1e6);
  if (!gib) {
    if (!error) error = gib.error();
    return;
  }
  if (!*gib) return;
  const std::string_view meaning = row.Text(definition);
  const double divisor = meaning.contains("SUM") ? static_cast<double>(gpus) : 1;
  measured.push_back({KindOf(meaning), std::llround(**gib * kMibPerGib / divisor)});
}

TrainingRun RunOf(const base::CsvRow& row) {
  TrainingRun run;
  std::optional<base::Error> error;
  run.id = row.Text("id");
  run.source = row.Text("source");
  run.model = row.Text("model");
  run.method = row.Text("method");
  run.quantisation = row.Text("wquant").empty() ? "none" : row.Text("wquant");
  run.parallel = row.Text("parallel").empty() ? "none" : row.Text("parallel");
  Take(row, "n_gpu", 1, 1e6, run.gpus, error);
  AddMeasured(row, "mem_gib", "mem_def", run.gpus, run.measured, error);
  AddMeasured(row, "mem2_gib", "mem2_def", run.gpus, run.measured, error);
  run.plan = PlanOf(row, run.gpus, error);
  if (error) run.plan = std::unexpected(*error);
  return run;
}

Result<Unit> AddRuns(const std::string& path, const NamesOfModels& names, TrainingRuns& all) {
  const base::CsvTable table = CARMA_TRY(base::CsvTable::Read(
      path, {"id", "source", "framework", "model", "method", "mem_gib", "mem_def"},
      kMaxTableBytes));
  for (std::size_t i = 0; i < table.size(); ++i) {
    TrainingRun run = RunOf(table.Row(i));
    if (!run.plan && run.plan.error().code == ErrorCode::kInvalid)
      all.troubles.push_back(run.plan.error().message);
    const auto found = names.find(run.model);
    if (found == names.end()) {
      ++all.without_model;
      continue;
    }
    if (run.measured.empty()) continue;
    run.config = found->second;
    run.family = all.configs[run.config].family;
    all.runs.push_back(std::move(run));
  }
  return Unit{};
}

}  // namespace

Result<TrainingRuns> ReadTrainingRuns(const std::vector<std::string>& runs,
                                      const std::vector<std::string>& models) {
  Models known;
  for (const std::string& path : models) CARMA_TRY(AddModels(path, known));
  TrainingRuns all;
  all.configs = std::move(known.configs);
  for (const std::string& path : runs) CARMA_TRY(AddRuns(path, known.by_name, all));
  if (all.runs.empty()) {
    return Invalid("{}: no row has both a memory value and a model in {}", base::Join(runs, ", "),
                   base::Join(models, ", "));
  }
  return all;
}

Result<std::string> FieldOf(const TrainingRun& run, std::string_view field) {
  if (field == "source") return run.source;
  if (field == "family") return run.family;
  if (field == "model") return run.model;
  if (field == "method") return run.method;
  if (field == "quantisation") return run.quantisation;
  if (field == "parallel") return run.parallel;
  if (field == "gpus") return std::to_string(run.gpus);
  return Invalid(
      "'{}': expected one or more of source, family, model, method, quantisation, parallel, gpus",
      base::Printable(field, 40));
}

}  // namespace carma::estimate

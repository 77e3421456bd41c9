#include "estimate/training_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "estimate/estimator.h"

namespace carma::estimate {
namespace {

using task::TrainingWord;

constexpr std::int64_t kMostTokens = 1'000'000'000;
constexpr std::int64_t kMostSide = 30'000;
constexpr std::int64_t kMostSamples = 1'000'000;
constexpr std::int64_t kMostGpus = 100'000;
constexpr std::int64_t kMostParameters = 1'000'000'000'000'000;
constexpr std::int64_t kMostRank = 1'000'000;

// Where the word was found: "--method", or "lora.yaml:7: method".
std::string Place(const TrainingWord& word) {
  return word.from.empty() ? "--" + word.name : word.from + ": " + word.name;
}

std::unexpected<base::Error> Wrong(const TrainingWord& word, std::string_view expected) {
  return Invalid("{}: '{}': expected {}", Place(word), base::Printable(word.value, 40), expected);
}

// Looks up words and records the first error.
class Words {
 public:
  explicit Words(std::span<const TrainingWord> words) : words_(words) {}

  // The last word with this name. Null if there is none.
  const TrainingWord* Find(std::string_view name) const {
    for (auto word = words_.rbegin(); word != words_.rend(); ++word) {
      if (word->name == name) return &*word;
    }
    return nullptr;
  }

  void Number(std::string_view name, std::int64_t most, std::int64_t& target) {
    const TrainingWord* word = Find(name);
    if (word == nullptr) return;
    const std::optional<std::int64_t> number = base::ParseInt(word->value);
    if (!number || *number < 1 || *number > most)
      return Take(Wrong(*word, fmt::format("a number from 1 to {}", most)));
    target = *number;
  }

  void Switch(std::string_view name, bool& target) {
    const TrainingWord* word = Find(name);
    if (word == nullptr) return;
    if (word->value != "on" && word->value != "off") return Take(Wrong(*word, "on or off"));
    target = word->value == "on";
  }

  void Share(std::string_view name, double& target) {
    const TrainingWord* word = Find(name);
    if (word == nullptr) return;
    const std::optional<double> share = base::ParseDouble(word->value);
    if (!share || !(*share >= 0 && *share < 1)) return Take(Wrong(*word, "a share from 0 to 0.99"));
    target = *share;
  }

  template <class Enum>
  void OneOf(std::string_view name, Enum& target) {
    const TrainingWord* word = Find(name);
    if (word == nullptr) return;
    const std::optional<Enum> known = base::FromWord<Enum>(Plain(word->value));
    if (!known) return Take(Wrong(*word, base::AllWords<Enum>()));
    target = *known;
  }

  // Converts a value to the form of enum words: lower case with dashes.
  static std::string Plain(std::string_view value) {
    std::string plain = base::ToLower(value);
    std::replace(plain.begin(), plain.end(), '_', '-');
    return plain;
  }

  void Take(const std::unexpected<base::Error>& mistake) {
    if (!mistake_) mistake_ = mistake.error();
  }
  const std::optional<base::Error>& mistake() const { return mistake_; }

 private:
  std::span<const TrainingWord> words_;
  std::optional<base::Error> mistake_;
};

void SetTokens(Words& words, TrainingPlan& plan) {
  bool packed = false;
  std::int64_t mean_length = 0;
  words.Number("seq-len", kMostTokens, plan.sequence);
  words.Number("mean-len", kMostTokens, mean_length);
  std::int64_t target = 0;
  words.Number("target-len", kMostTokens, target);
  if (target > 0) plan.target = target;
  words.Number("batch", kMostSamples, plan.batch);
  words.Number("parameters", kMostParameters, plan.parameters);
  words.Number("frozen-parameters", kMostParameters, plan.frozen_parameters);
  words.Switch("ema", plan.averages);
  words.Switch("encodes-images", plan.encodes_images);
  words.Switch("packed", packed);
  words.Switch("variable-length", plan.variable_length);
  if (packed && (plan.variable_length || mean_length > 0)) {
    words.Take(Invalid(Place(*words.Find("packed")) +
                       " cannot be combined with --variable-length or --mean-len"));
  }
  plan.variable_length = plan.variable_length || mean_length > 0;
  if (mean_length > 0) plan.mean_length = mean_length;
  words.Switch("grad-accum", plan.accumulates);
}

// Sets the precision from the words that other estimators use too. fp32 and bf16 also set the type
// of the stored weights.
void SetPrecision(Words& words, TrainingPlan& plan) {
  const TrainingWord* word = words.Find("precision");
  if (word != nullptr) {
    const std::optional<Precision> precision = ParsePrecision(word->value);
    if (!precision) return words.Take(Wrong(*word, "fp32, amp, fp16 or bf16"));
    plan.amp = *precision == Precision::kMixed;
    if (*precision == Precision::kFp32) plan.weights = Dtype::kFp32;
    if (*precision == Precision::kHalf) plan.weights = Dtype::kBf16;
  }
  words.Switch("amp", plan.amp);
}

// Returns true if the settings or config.json state how the weights are stored. The precision "amp"
// does not state it.
bool StatesWeights(const Words& words, const TransformerConfig& config) {
  const TrainingWord* precision = words.Find("precision");
  return config.dtype || words.Find("weights") != nullptr ||
         (precision != nullptr && ParsePrecision(precision->value) != Precision::kMixed);
}

void SetWeights(Words& words, const TransformerConfig& config, TrainingPlan& plan) {
  plan.weights = config.dtype.value_or(Dtype::kBf16);
  plan.quantisation = config.quantisation.value_or(Quantisation::kNone);
  SetPrecision(words, plan);
  const TrainingWord* word = words.Find("weights");
  if (word == nullptr) return;
  const std::string name = Words::Plain(word->value);
  const auto dtype = base::FromWord<Dtype>(name);
  const auto quantisation = base::FromWord<Quantisation>(name);
  if (!dtype && !quantisation) {
    return words.Take(
        Wrong(*word, base::AllWords<Dtype>() + ", or " + base::AllWords<Quantisation>()));
  }
  if (dtype) {
    plan.weights = *dtype;
    plan.quantisation = Quantisation::kNone;
  } else {
    plan.quantisation = *quantisation;
  }
}

// If no sequence length is given, derives it from the image's resolution, the size of the position
// table or the tokenizer's maximum length.
void SetLength(Words& words, const TransformerConfig& config, TrainingPlan& plan) {
  if (words.Find("seq-len") != nullptr) return;
  if (config.usual_length > 0) plan.sequence = config.usual_length;
  std::int64_t cut = plan.sequence;
  words.Number("tokenizer-len", kMostTokens, cut);
  plan.sequence = std::min(plan.sequence, cut);
  if (config.positions > 0)
    plan.sequence = config.one_length ? std::min(kMostTokens, config.positions)
                                      : std::min(plan.sequence, config.positions);
  std::int64_t side = 0;
  words.Number("resolution", kMostSide, side);
  if (side == 0 || config.token_pixels == 0) return;
  const std::int64_t tokens = std::max<std::int64_t>(1, side / config.token_pixels);
  plan.sequence = std::min(kMostTokens, tokens * tokens * config.frames + config.text_tokens);
}

// The matrices that have adapters by default, as in PEFT or in diffusers' scripts.
std::string_view UsualTargets(const TransformerConfig& config) {
  return config.diffuses ? "attention" : "q,v";
}

void SetMethod(Words& words, const TransformerConfig& config, TrainingPlan& plan) {
  if (const TrainingWord* method = words.Find("method")) {
    const std::string name = Words::Plain(method->value);
    const std::optional<Method> known = base::FromWord<Method>(name == "qlora" ? "lora" : name);
    if (!known) return words.Take(Wrong(*method, "full, lora or qlora"));
    plan.method = *known;
    if (name == "qlora" && plan.quantisation == Quantisation::kNone)
      plan.quantisation = Quantisation::kNf4;
  }
  bool unprepared = false;
  words.Switch("unprepared", unprepared);
  // TRL, Axolotl and LLaMA-Factory cast the unquantised weights to fp32 before training adapters.
  const bool prepared =
      plan.method == Method::kLora && !unprepared &&
      (plan.quantisation == Quantisation::kNf4 || plan.quantisation == Quantisation::kNf4Double);
  plan.fp32_residual = plan.fp32_rest = prepared;
  const TrainingWord usual{"lora-targets", std::string(UsualTargets(config)), ""};
  const TrainingWord* said = words.Find("lora-targets");
  const TrainingWord& named = said != nullptr ? *said : usual;
  const Result<LoraTargets> targets = ParseLoraTargets(named.value);
  if (!targets) return words.Take(Invalid(Place(named) + ": " + targets.error().message));
  plan.lora_targets = *targets;
  words.Number("lora-rank", kMostRank, plan.lora_rank);
  words.Switch("lora-dropout", plan.lora_dropout);
  words.Switch("train-embeddings", plan.trains_embeddings);
}

// Sets the objective and whether a reference model is loaded. Adapter training loads none by
// default, because the model without its adapters serves as the reference. GRPO loads one only on
// request.
void SetObjective(Words& words, TrainingPlan& plan) {
  words.OneOf("objective", plan.objective);
  plan.reference = plan.objective == Objective::kPreferences && plan.method == Method::kFull;
  words.Switch("reference", plan.reference);
  words.Share("rollout-share", plan.rollout_share);
}

void SetOffload(Words& words, TrainingPlan& plan) {
  const TrainingWord* word = words.Find("offload");
  if (word == nullptr) return;
  for (const std::string_view each : base::Split(word->value, ',')) {
    const std::string what = base::ToLower(base::Trim(each));
    if (what == "optimizer") {
      plan.offload_optimizer = true;
    } else if (what == "params" || what == "parameters") {
      plan.offload_parameters = true;
    } else if (what == "activations") {
      plan.offload_activations = true;
    } else if (!what.empty() && what != "none") {
      return words.Take(
          Wrong(*word, "one or more of optimizer, params, activations, separated by commas"));
    }
  }
}

void SetParallel(Words& words, TrainingPlan& plan) {
  words.Number("tp", kMostGpus, plan.tensor_parallel);
  words.Number("pp", kMostGpus, plan.pipeline);
  words.Number("cp", kMostGpus, plan.context_parallel);
  words.Number("ep", kMostGpus, plan.expert_parallel);
  words.Switch("sequence-parallel", plan.sequence_parallel);
  words.Number("micro-batches", kMostSamples, plan.micro_batches);
  words.OneOf("schedule", plan.schedule);
  words.Number("stages-per-gpu", kMostGpus, plan.stages_per_gpu);
  if (words.mistake()) return;
  const std::int64_t one_copy = plan.tensor_parallel * plan.pipeline * plan.context_parallel;
  std::int64_t gpus = one_copy;
  words.Number("gpus", kMostGpus, gpus);
  if (gpus % one_copy != 0) {
    return words.Take(
        Wrong(*words.Find("gpus"),
              fmt::format("a multiple of --tp x --pp x --cp, which is {}", one_copy)));
  }
  plan.ranks = gpus / one_copy;
  words.OneOf("dp", plan.data_parallel);
  words.Switch("deepspeed-engine", plan.deepspeed);
  words.Switch("megatron", plan.megatron);
  if (plan.megatron) UseMegatron(plan);
  // In mixed precision, DeepSpeed converts the weights to 16 bits and keeps fp32 master weights.
  if (plan.deepspeed && plan.amp && plan.weights == Dtype::kFp32) plan.weights = Dtype::kBf16;
  SetOffload(words, plan);
}

void SetLoss(Words& words, TrainingPlan& plan) {
  bool fused = false;
  words.Switch("fused-loss", fused);
  if (fused) plan.loss = Loss::kFused;
  words.OneOf("loss", plan.loss);
  words.Switch("fused-layers", plan.fused_layers);
  words.Switch("expandable-segments", plan.expandable_segments);
}

// Adds a sentence for each setting that was given but has no effect in this plan.
void AddIgnored(const Words& words, const TransformerConfig& config, const TrainingPlan& plan,
                std::vector<std::string>& assumed) {
  const auto ignored = [&](std::initializer_list<const char*> names, const char* reason) {
    for (const char* name : names) {
      if (const TrainingWord* word = words.Find(name); word != nullptr && word->value != "off")
        assumed.push_back(fmt::format("{} {} is ignored: {}", Place(*word),
                                      base::Printable(word->value, 40), reason));
    }
  };
  if (config.token_pixels == 0) ignored({"resolution"}, "the model does not process images");
  if (plan.method != Method::kLora)
    ignored({"lora-rank", "lora-targets", "lora-dropout", "train-embeddings", "unprepared"},
            "the training method is full");
  if (plan.objective == Objective::kTokens) ignored({"reference"}, "the objective is sft");
  if (plan.objective != Objective::kGroups) ignored({"rollout-share"}, "the objective is not grpo");
  if (plan.ranks == 1 && plan.data_parallel == DataParallel::kFsdp)
    ignored({"dp"}, "there is only one GPU, so the weights cannot be sharded");
  if (plan.tensor_parallel == 1) ignored({"sequence-parallel"}, "there is no tensor parallelism");
  if (plan.pipeline == 1)
    ignored({"micro-batches", "schedule", "stages-per-gpu"}, "there is no pipeline");
  if (config.experts <= 1) ignored({"ep"}, "the model has no experts");
}

}  // namespace

Result<TrainingPlan> PlanOf(std::span<const TrainingWord> said, const TransformerConfig& config) {
  TrainingPlan plan;
  Words words(said);
  SetTokens(words, plan);
  SetWeights(words, config, plan);
  SetMethod(words, config, plan);
  // By default, from_pretrained loads weights in fp32, but in 16 bits if it quantises the blocks.
  if (!StatesWeights(words, config) && plan.quantisation == Quantisation::kNone)
    plan.weights = Dtype::kFp32;
  SetObjective(words, plan);
  words.OneOf("optimizer", plan.optimizer);
  words.OneOf("gradient-checkpointing", plan.checkpointing);
  words.Number("checkpoint-every", kMostGpus, plan.checkpoint_every);
  if (plan.checkpoint_every > 1) plan.checkpointing = Checkpointing::kFull;
  words.Switch("step-in-backward", plan.step_in_backward);
  words.OneOf("attention", plan.attention);
  SetLoss(words, plan);
  SetParallel(words, plan);
  SetLength(words, config, plan);
  if (words.mistake()) return std::unexpected(*words.mistake());
  if (!plan.target && config.decoder_positions > 0) plan.target = config.decoder_positions;
  return plan;
}

Result<Unit> CheckWords(std::span<const TrainingWord> words) {
  CARMA_TRY(PlanOf(words, TransformerConfig{}));
  return Unit{};
}

void AddIfValid(TrainingWord word, std::vector<TrainingWord>& words,
                std::vector<std::string>& notes) {
  if (const Result<Unit> known = CheckWords({&word, 1}); !known) {
    notes.push_back(known.error().message);
  } else {
    words.push_back(std::move(word));
  }
}

std::vector<std::string> Assumptions(std::span<const TrainingWord> said,
                                     const TransformerConfig& config, const TrainingPlan& plan) {
  const Words words(said);
  std::vector<std::string> assumed;
  if (words.Find("seq-len") == nullptr && config.one_length) {
    if (words.Find("resolution") == nullptr)
      assumed.push_back(fmt::format("assuming {} of {} {}, as in config.json ({})",
                                    config.sees_images ? "images" : "audio clips", plan.sequence,
                                    config.sees_images ? "patches" : "tokens",
                                    config.token_pixels > 0 ? "--resolution" : "--seq-len"));
  } else if (words.Find("seq-len") == nullptr) {
    const TrainingWord* cut = words.Find("tokenizer-len");
    const bool cuts = cut != nullptr && cut->value == std::to_string(plan.sequence);
    assumed.push_back(fmt::format("sequence length unknown: {} tokens assumed{} (--seq-len)",
                                  plan.sequence, cuts ? ", the tokenizer's maximum" : ""));
  }
  if (config.decoder_layers > 0 && words.Find("target-len") == nullptr) {
    assumed.push_back(fmt::format("decoder length unknown: {} tokens assumed (--target-len)",
                                  plan.target.value_or(plan.sequence)));
  }
  if (plan.tensor_parallel > 1 && words.Find("sequence-parallel") == nullptr) {
    assumed.emplace_back(
        "assuming tensor parallelism without sequence parallelism (--sequence-parallel)");
  }
  if (plan.objective == Objective::kGroups && words.Find("reference") == nullptr)
    assumed.emplace_back(
        "assuming training without a reference model, as with beta 0 (--reference)");
  if (plan.objective == Objective::kGroups && words.Find("rollout-share") == nullptr)
    assumed.emplace_back("assuming that answers are generated on other GPUs (--rollout-share)");
  if (words.Find("batch") == nullptr)
    assumed.push_back(fmt::format("batch size unknown: {} assumed (--batch-size)", plan.batch));
  if (!StatesWeights(words, config))
    assumed.push_back(fmt::format("precision of the stored weights unknown: {} assumed (--weights)",
                                  base::WordOf(plan.weights)));
  if (words.Find("weights") == nullptr && config.quantisation &&
      plan.quantisation != Quantisation::kNone) {
    assumed.push_back(
        fmt::format("the blocks' weights stay in {} bits, as stated in config.json (--weights)",
                    plan.quantisation == Quantisation::kInt8 ? 8 : 4));
  }
  AddIgnored(words, config, plan, assumed);
  return assumed;
}

bool AssumesLength(std::span<const TrainingWord> said, const TransformerConfig& config) {
  return Words(said).Find("seq-len") == nullptr && !config.one_length;
}

}  // namespace carma::estimate

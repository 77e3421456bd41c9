// Computes each rank's peak at each moment of a step, and the estimate's bounds.
#include "estimate/transformer/peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "estimate/coverage.h"
#include "estimate/loaded_code.h"
#include "estimate/transformer/tokens.h"

namespace carma::estimate {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kGibMib = 1024;

// ---- constants; docs/evidence/estimators.md names their sources ----

// CUDA context, libraries and their workspaces in a training process.
const double kContextMib = ShippedMib({Loading::kLazy, Libraries::kSequences});
// Extra memory for collective operations and their streams on a GPU with sharded weights: a
// fraction of the bytes moved, up to a limit.
constexpr double kShardingShare = 0.4;
constexpr double kShardingMib = 2.5 * kGibMib;
// Bytes that PyTorch's allocator reserves per byte of logits and activations, one factor per cause.
// Blocks of varying sizes leave gaps, so the factors are above 1. Those named "Variable" are for
// sizes that never repeat; the others were fitted to runs of fixed length.
constexpr double kSpreadLayer = 1.2;
constexpr double kSpreadStock = 1.35;
constexpr double kSpreadInPlace = 1.6;
constexpr double kSpreadKept = 1.05;  // without checkpointing: kept blocks leave hardly any gaps
constexpr double kStepKept = 0.3;     // added: this share of gradients and of step temporaries
constexpr double kSpreadKeptVariable = 1.5;
constexpr double kSpreadVariable = 2.7;
// Segments that grow in place leave hardly any gaps: factors of 1.01 to 1.17 were measured on an
// H100.
constexpr double kSpreadExpandable = 1.1;
constexpr double kSpreadVariableShared = 1.6;  // frozen sharded weights: one large block dominates

// Quantiles of measured / predicted over the runs, raised slightly for coverage 0.9 and above. The
// last column is an educated guess.
constexpr CoverageFactors kNeededFactors{1.00, 1.04, 1.10, 1.16, 1.35, 2.0};
constexpr CoverageFactors kShownFactors{1.00, 1.08, 1.16, 1.24, 1.45, 2.0};
constexpr CoverageFactors kVariableFactors{1.00, 1.15, 1.27, 1.42, 1.70, 2.5};
// Factors for kinds of training that were never measured. Their margin (factor - 1) is twice that
// of the factors above; the doubling was chosen, not fitted.
constexpr CoverageFactors kNeededUnseen{1.00, 1.08, 1.20, 1.32, 1.70, 3.0};
constexpr CoverageFactors kShownUnseen{1.00, 1.16, 1.32, 1.48, 1.90, 3.0};
constexpr CoverageFactors kVariableUnseen{1.00, 1.30, 1.54, 1.84, 2.40, 4.0};

// ---- the moments ----

struct Moment {
  TrainingPhase phase = TrainingPhase::kStep;
  MemoryParts parts;
};

std::vector<Moment> MomentsOf(const Static& all, const PerToken& per, const Sizes& sizes,
                              const TrainingPlan& plan) {
  const double waiting = all.waiting;
  const bool again = RunsBlocksAgain(plan);
  const double copies = all.root + all.buckets;
  const double tokens = sizes.tokens;
  std::vector<Moment> moments;
  const auto add = [&](TrainingPhase phase, double gradients, double logits, double activations,
                       double working) {
    const bool whole = phase == TrainingPhase::kLoss || (phase == TrainingPhase::kLayer && !again);
    const double copied = whole ? all.copies : 0;
    moments.push_back({phase,
                       {.weights = (all.weights + copied) / kMib,
                        .gradients = gradients / kMib,
                        .optimizer = all.optimizer / kMib,
                        .logits = tokens * logits / kMib,
                        .activations = tokens * activations / kMib,
                        .working = working / kMib,
                        .beside = all.beside / kMib}});
  };
  add(TrainingPhase::kStep, all.gradients, 0, 0, all.step + all.buckets);
  add(TrainingPhase::kLoss, waiting, per.loss, per.inputs + (again ? per.above : 0), copies);
  const double block = again ? per.block + per.temporaries : 0;
  add(TrainingPhase::kLayer, waiting, per.held,
      per.inputs + (again ? block : per.temporaries) + per.stays, copies + all.one_block);
  add(TrainingPhase::kEnd, std::max(waiting, all.gradients), 0, block, copies + all.one_block);
  if (per.midway > 0)
    add(TrainingPhase::kEnd, std::max(waiting, per.midway_gradients * all.gradients), 0, per.midway,
        copies + all.one_block);
  if (per.encodes > 0) add(TrainingPhase::kEncode, waiting, 0, per.encodes, all.buckets);
  if (all.whole > 0) add(TrainingPhase::kSave, 0, 0, 0, all.whole + all.buckets);
  return moments;
}

struct RankPeak {
  Moment moment;
  double reserved_mib = 0;
  double trained = 0;
  double collectives_mib = 0;
};

// NCCL's memory. The terms for sharded weights and for ZeRO's buckets come from runs that include
// it.
double CollectivesMib(const TrainingPlan& plan, const Static& all) {
  const bool several = Shards(plan) > 1 || plan.tensor_parallel > 1 || Pipelines(plan);
  if (!several || all.shares_weights) return 0;
  const double counted = IsZero(plan.data_parallel) ? all.buckets / kMib : 0;
  return std::max(0.0, kCollectivesMib - counted);
}

double UsualSpread(const Moment& busiest, bool shares_weights, const TrainingPlan& plan) {
  if (!RunsBlocksAgain(plan)) return plan.variable_length ? kSpreadKeptVariable : kSpreadKept;
  if (plan.variable_length) {
    const bool block_decides = shares_weights && plan.method == Method::kLora;
    return block_decides ? kSpreadVariableShared : kSpreadVariable;
  }
  if (busiest.parts.logits == 0) return kSpreadLayer;
  return plan.loss == Loss::kInPlace ? kSpreadInPlace : kSpreadStock;
}

double SpreadOf(const Moment& busiest, bool shares_weights, const TrainingPlan& plan) {
  const double usual = UsualSpread(busiest, shares_weights, plan);
  return plan.expandable_segments ? std::min(usual, kSpreadExpandable) : usual;
}

double MovingMib(const Moment& moment) {
  return moment.parts.logits + moment.parts.activations;
}

// The first step allocates the optimizer's memory while the allocator still caches activation
// blocks of many sizes. The result therefore includes these blocks, the gaps between them, and the
// optimizer's memory. moments: must begin with the optimizer's step.
double ReservedMib(const std::vector<Moment>& moments, const Static& all, double needed,
                   const TrainingPlan& plan) {
  const Moment& busiest = *std::ranges::max_element(
      moments, [](const Moment& a, const Moment& b) { return MovingMib(a) < MovingMib(b); });
  const double moving = MovingMib(busiest);
  const double spread = SpreadOf(busiest, all.shares_weights, plan);
  double free_running = moments.front().parts.Sum() + busiest.parts.working + spread * moving;
  // Without checkpointing, the activations of all blocks exist at the same time, and the memory
  // freed with them is nearly enough for the optimizer's step.
  if (!RunsBlocksAgain(plan) && !all.shares_weights) {
    const MemoryParts& step = moments.front().parts;
    free_running = needed + (spread - 1) * moving + kStepKept * (step.gradients + step.working);
  }
  if (all.shares_weights) {
    free_running += std::min(kShardingMib, kShardingShare * moving) +
                    std::max(0.0, all.waiting - all.gradients) / kMib;
  }
  // When memory is short, the allocator releases cached blocks, so the peak lies between the memory
  // needed and the GPU's capacity.
  if (plan.gpu_mib && free_running + kContextMib > *plan.gpu_mib) {
    const double room = std::max(*plan.gpu_mib - kContextMib, needed);
    return (needed + room) / 2;
  }
  return std::max(needed, free_running);
}

// FSDP's mixed precision runs blocks on 16-bit copies, regardless of the precision of its shards.
TrainingPlan AsActivations(const TrainingPlan& plan) {
  TrainingPlan acts = plan;
  if (plan.data_parallel == DataParallel::kFsdp && Shards(plan) > 1 && plan.amp)
    acts.weights = acts.weights == Dtype::kFp32 ? Dtype::kBf16 : acts.weights;
  return acts;
}

// Bytes per token while an autoencoder encodes images. At full resolution, the autoencoder's first
// block holds its input and the results of a norm, an activation and a convolution, with 128
// channels each.
double EncodingBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  if (!plan.encodes_images) return 0;
  constexpr double kElements = 4 * 128;
  const auto side = static_cast<double>(config.token_pixels);
  return kElements * side * side * (plan.amp || plan.weights != Dtype::kFp32 ? 2 : 4);
}

RankPeak PeakOf(const TransformerConfig& config, const TrainingPlan& plan, const Stage& stage) {
  Sizes sizes = SizesOf(config, plan, stage);
  Adapters adapters;
  if (plan.method == Method::kLora)
    adapters =
        config.blocks ? AdaptersOf(*config.blocks, plan) : AdaptersOf(sizes, plan, config.gated);
  const Static all = StaticOf(sizes, adapters, plan);
  const TrainingPlan acts = AsActivations(plan);
  PerToken per;
  if (config.decoder_layers > 0) {
    const double tokens = plan.target ? static_cast<double>(*plan.target * plan.batch) /
                                            static_cast<double>(plan.context_parallel)
                                      : sizes.tokens;
    per = PerTokenOfBoth(config, acts, sizes, adapters, tokens, all.shares_weights);
    sizes.tokens = tokens;
  } else if (config.blocks) {
    per = PerTokenOfBlocks(config, acts, sizes, adapters, all.shares_weights);
  } else {
    const Stack stack{.layers = sizes.layers, .keys = sizes.sequence};
    per = PerTokenOf(config, acts, sizes, adapters, stack, all.shares_weights);
  }
  AddTowers(config, acts, per);
  per.encodes = EncodingBytes(config, acts);
  const std::vector<Moment> moments = MomentsOf(all, per, sizes, plan);
  RankPeak peak;
  peak.trained = all.trained;
  peak.collectives_mib = CollectivesMib(plan, all);
  peak.moment = *std::ranges::max_element(
      moments, [](const Moment& a, const Moment& b) { return a.parts.Sum() < b.parts.Sum(); });
  peak.reserved_mib = ReservedMib(moments, all, peak.moment.parts.Sum(), plan);
  return peak;
}

// The number of micro-batches whose activations the first stage holds at the same time. A
// micro-batch that has passed through only part of the stage's layers counts as a fraction.
double InFlight(const TrainingPlan& plan) {
  if (plan.in_flight > 0) return static_cast<double>(plan.in_flight);
  const auto stages = static_cast<double>(plan.pipeline);
  const auto parts = static_cast<double>(plan.micro_batches);
  const auto parts_of_gpu = static_cast<double>(plan.stages_per_gpu);
  double most = stages;
  // With an interleaved schedule, the first stage runs ahead of all other stages.
  if (plan.schedule == Schedule::kInterleaved)
    most = (2 * (stages - 1) + (parts_of_gpu - 1) * stages + 1) / parts_of_gpu;
  if (plan.schedule == Schedule::kGpipe) most = std::max(parts, stages);
  return parts > 0 ? std::min(most, parts) : most;
}

// The first stage keeps the most micro-batches. The last stage computes the loss.
std::vector<Stage> StagesOf(const TransformerConfig& config, const TrainingPlan& plan) {
  const auto layers = static_cast<double>(config.layers);
  if (plan.pipeline == 1) return {{.layers = layers}};
  const double part = std::ceil(layers / static_cast<double>(plan.pipeline));
  const double most = InFlight(plan);
  return {{.layers = part, .last = false, .in_flight = most}, {.layers = part, .first = false}};
}

Result<Unit> Check(const TransformerConfig& config, const TrainingPlan& plan) {
  const auto wrong = [](std::string text) { return Invalid(std::move(text)); };
  if (plan.sequence < 1 || plan.batch < 1 || plan.mean_length.value_or(1) < 1 ||
      plan.target.value_or(1) < 1)
    return wrong("expected at least one token");
  if (plan.expert_parallel > 1 && plan.ranks % plan.expert_parallel != 0)
    return wrong(fmt::format("--ep {}: expected a divisor of the number of data-parallel GPUs ({})",
                             plan.expert_parallel, plan.ranks));
  if (plan.expert_parallel > 1 && config.experts % plan.expert_parallel != 0)
    return wrong(fmt::format("--ep {}: expected a divisor of the number of experts ({})",
                             plan.expert_parallel, config.experts));
  if (plan.micro_batches > plan.batch)
    return wrong(fmt::format("--micro-batches {}: expected at most --batch-size {}",
                             plan.micro_batches, plan.batch));
  if (plan.ranks < 1 || plan.tensor_parallel < 1 || plan.pipeline < 1 || plan.context_parallel < 1)
    return wrong("expected at least one GPU for each kind of parallelism");
  if (plan.pipeline > config.layers)
    return wrong(fmt::format("{} pipeline stages: expected at most one per layer ({} layers)",
                             plan.pipeline, config.layers));
  if ((config.blocks || !config.towers.empty()) &&
      plan.tensor_parallel * plan.pipeline * plan.context_parallel > 1)
    return wrong("models of this kind cannot be split by --tp, --pp or --cp; use only --dp");
  if (plan.method == Method::kFull && plan.quantisation != Quantisation::kNone)
    return wrong(
        "quantised weights do not support full training; use --method lora, or --weights bf16 if "
        "the model was converted to bf16");
  return Unit{};
}

// Returns true if the model has a part outside the main stack, such as an image encoder, of which
// only the weights are counted. Models with samples of one length or with a list of blocks are
// counted completely.
bool CountsBeside(const TransformerConfig& config) {
  return config.other_parameters > 0 && !config.one_length && !config.blocks &&
         config.usual_length == 0;
}

// Lists the properties of this training run that the measurements cover poorly. Either no measured
// run has the property, or the only such runs are from sources that give few details. Empty if
// there are none.
std::string UnseenOf(const TransformerConfig& config, const TrainingPlan& plan) {
  std::vector<std::string> unseen;
  if (config.decoder_layers > 0) unseen.emplace_back("an encoder and a decoder");
  if (config.latent_parameters > 0) unseen.emplace_back("latent attention");
  if (config.repeats_block) unseen.emplace_back("a single repeated block");
  // All measured U-Nets used full training without checkpointing.
  const bool in_full = plan.method == Method::kFull && !RunsBlocksAgain(plan);
  if (config.blocks && !(config.diffuses && in_full)) unseen.emplace_back("blocks of this kind");
  if (config.diffuses && !config.blocks) unseen.emplace_back("diffusion over patches");
  if (!config.towers.empty()) unseen.emplace_back("two towers");
  if (config.sees_images && !config.diffuses) unseen.emplace_back("image patches");
  if (CountsBeside(config)) unseen.emplace_back("an additional image encoder");
  const bool shares = Shards(plan) > 1 && (plan.data_parallel == DataParallel::kFsdp ||
                                           plan.data_parallel == DataParallel::kZero3);
  if (plan.tensor_parallel > 1) unseen.emplace_back("tensor parallelism");
  if (plan.context_parallel > 1) unseen.emplace_back("context parallelism");
  if (Pipelines(plan)) unseen.emplace_back("pipelines");
  if (plan.ranks > 1 && IsZero(plan.data_parallel)) unseen.emplace_back("ZeRO");
  if (plan.offload_optimizer || plan.offload_parameters || plan.offload_activations)
    unseen.emplace_back("offloading");
  if (plan.objective != Objective::kTokens) unseen.emplace_back("preference training or rollouts");
  if (plan.step_in_backward) unseen.emplace_back("an optimizer step inside the backward pass");
  if (plan.checkpointing == Checkpointing::kOperators || plan.checkpoint_every > 1)
    unseen.emplace_back("selective checkpointing");
  if (plan.expert_parallel > 1) unseen.emplace_back("expert parallelism");
  if (shares && plan.checkpointing == Checkpointing::kNone)
    unseen.emplace_back("sharded weights without checkpointing");
  return base::Join(unseen, ", ");
}

// Adds the parts of the model that config.json does not describe. Only their weights are counted.
TransformerConfig WithAllParameters(const TransformerConfig& described, const TrainingPlan& plan) {
  TransformerConfig config = described;
  if (plan.parameters == 0) return config;
  const double more = static_cast<double>(plan.parameters) - config.TotalParameters();
  config.stated_parameters = static_cast<double>(plan.parameters);
  // A small difference comes from biases and rounding, not from an additional part.
  if (more > 0.02 * config.TotalParameters() && !config.one_length) config.other_parameters += more;
  return config;
}

// Adds a sentence for each part that the estimate omits or assumes.
void AddWarnings(const TransformerConfig& config, const TrainingPlan& plan,
                 const std::string& unseen, std::vector<std::string>& warnings) {
  if (!unseen.empty())
    warnings.push_back(fmt::format("few measured runs use {}, so the bound is wider", unseen));
  if (plan.rollout_share > 0 && !plan.gpu_mib)
    warnings.emplace_back(
        "the engine that generates answers is not counted, because the GPU's memory is unknown "
        "(--gpu-memory)");
  if (plan.variable_length)
    warnings.emplace_back(
        "sample lengths vary, so the sequence length is treated as the maximum, and the amount of "
        "fragmentation is uncertain");
  if (!config.uncounted.empty() && plan.parameters == 0) {
    warnings.push_back(
        fmt::format("config.json describes parts that are not counted: {} (use --parameters to "
                    "state the size of the whole model)",
                    base::Join(config.uncounted, ", ")));
  }
  const bool deepspeed = plan.deepspeed && plan.method == Method::kFull;
  if (plan.ranks == 1 && (deepspeed || IsZero(plan.data_parallel)))
    warnings.emplace_back("DeepSpeed's buckets, up to 3.7G, are counted even on a single GPU");
  if (plan.offload_parameters && IsZero(plan.data_parallel))
    warnings.emplace_back(
        "only the offloaded weights that ZeRO keeps on the GPU are counted (up to 1.9G)");
  for (const std::string& remark : config.remarks) warnings.push_back(remark);
  if (config.diffuses && plan.frozen_parameters == 0)
    warnings.emplace_back(
        "additional text and image encoders are not counted (--hf-config model_index.json, "
        "--frozen-parameters, --encodes-images)");
  if (CountsBeside(config)) {
    warnings.emplace_back(
        "for the parts outside the text stack, only the weights are counted; add their tokens to "
        "the sequence length, and use carma_summary.py to measure their activations");
  }
  if (config.experts > 1 && plan.method == Method::kLora)
    warnings.emplace_back("adapters on experts are not counted separately");
}

MemoryBound Bounded(double mib, double factor, double fixed_mib) {
  MemoryBound bound;
  bound.point_mib = std::llround(std::min(mib, 1e15));
  bound.bound_mib = std::max<std::int64_t>(
      bound.point_mib, std::llround(std::min(fixed_mib + factor * (mib - fixed_mib), 1e15)));
  return bound;
}

}  // namespace

double MemoryParts::Sum() const {
  return weights + gradients + optimizer + logits + activations + working + beside;
}

Result<TransformerEstimate> EstimateTransformer(const TransformerConfig& described,
                                                const TrainingPlan& asked, double coverage) {
  TrainingPlan plan = asked;
  const TransformerConfig config = WithAllParameters(described, plan);
  if (plan.objective == Objective::kPreferences) plan.batch *= 2;
  if (plan.objective == Objective::kTokens) plan.reference = false;
  if (plan.objective != Objective::kGroups) plan.rollout_share = 0;
  if (config.unfused_attention) plan.attention = Attention::kEager;
  if (Result<Unit> checked = Check(config, plan); !checked) return std::unexpected(checked.error());
  TransformerEstimate estimate;
  estimate.parameters = config.TotalParameters();
  estimate.coverage = coverage;
  double highest = -1;
  for (const Stage& stage : StagesOf(config, plan)) {
    const RankPeak peak = PeakOf(config, plan, stage);
    estimate.trained_parameters = std::max(estimate.trained_parameters, peak.trained);
    if (peak.reserved_mib <= highest) continue;
    highest = peak.reserved_mib;
    estimate.context_mib = kContextMib + peak.collectives_mib;
    estimate.phase = peak.moment.phase;
    estimate.parts = peak.moment.parts;
  }
  const double needed = estimate.parts.Sum();
  estimate.fragmentation_mib = highest - needed;
  const std::string unseen = UnseenOf(config, plan);
  const CoverageFactors& fixed = unseen.empty() ? kShownFactors : kShownUnseen;
  const CoverageFactors& variable = unseen.empty() ? kVariableFactors : kVariableUnseen;
  const double factor = FactorAt(plan.variable_length ? variable : fixed, coverage);
  const CoverageFactors& tensors = unseen.empty() ? kNeededFactors : kNeededUnseen;
  estimate.needed = Bounded(needed, FactorAt(tensors, coverage), 0);
  estimate.reserved = Bounded(highest, factor, 0);
  estimate.shown = Bounded(highest + estimate.context_mib, factor, estimate.context_mib);
  AddWarnings(config, plan, unseen, estimate.warnings);
  return estimate;
}

}  // namespace carma::estimate

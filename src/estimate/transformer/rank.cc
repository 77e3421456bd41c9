// Computes the memory that one rank keeps on its GPU between steps.
#include "estimate/transformer/rank.h"

#include <algorithm>

namespace carma::estimate {
namespace {

// DeepSpeed's buckets for reducing and gathering have this size by default, as Qwen's tables show.
constexpr double kDeepSpeedBucketBytes = 4e9;
// Bytes of offloaded parameters that ZeRO's third stage keeps on the GPU by default.
constexpr double kLiveParameterBytes = 2e9;

// Bytes per parameter of the blocks' matrices, including scales. nf4 has 4 bits per weight and one
// fp32 scale per 64 weights; double quantisation also quantises the scales. GPTQ has a scale and a
// zero point per 128 weights.
double BytesOf(Quantisation quantisation, double plain) {
  switch (quantisation) {
    case Quantisation::kNone:
      return plain;
    case Quantisation::kNf4:
      return 0.5625;
    case Quantisation::kNf4Double:
      return 0.516;
    case Quantisation::kGptq4:
      return 0.52;
    case Quantisation::kInt8:
      return 1.02;
  }
  return plain;
}

double BytesOf(Dtype dtype) {
  return dtype == Dtype::kFp32 ? 4 : 2;
}

double StateBytes(StepOptimizer optimizer, double gradient) {
  switch (optimizer) {
    case StepOptimizer::kAdam:
    case StepOptimizer::kAdamFused:
      return 2 * gradient;
    case StepOptimizer::kAdam8Bit:
      return 2;
    case StepOptimizer::kAdam4Bit:
      return 1;
    case StepOptimizer::kMomentum:
      return gradient;
    case StepOptimizer::kPagedAdam:
    case StepOptimizer::kSgd:
    case StepOptimizer::kFactored:
      return 0;
  }
  return 0;
}

// PyTorch's foreach implementations, which are the default, make a copy as large as all trained
// parameters. Fused and 8-bit kernels make no copy, and neither does SGD without momentum or decay.
bool CopiesInStep(StepOptimizer optimizer) {
  return optimizer == StepOptimizer::kAdam || optimizer == StepOptimizer::kMomentum;
}

bool ShardsGradients(const TrainingPlan& plan) {
  return plan.data_parallel == DataParallel::kZero2 || plan.data_parallel == DataParallel::kZero3;
}

// In 16-bit training with DeepSpeed, weights and gradients are 16-bit, and master copies and
// optimizer states are 32-bit. held: number of parameters that would be on this GPU without
// sharding.
void UseDeepSpeed(const TrainingPlan& plan, double parameters, double held, Static& all) {
  const double ranks = Shards(plan);
  all.weights = plan.data_parallel == DataParallel::kZero3 ? 2 * parameters / ranks : 2 * held;
  all.gradients = ShardsGradients(plan) ? 2 * parameters / ranks : 2 * held;
  all.optimizer = 12 * parameters / ranks;
  all.step = 4 * parameters / ranks;  // gradients in fp32 for the step
}

// Megatron needs 18 bytes per parameter according to its README. With the distributed optimizer, it
// needs 6 + 12 / d bytes on d GPUs. It sums gradients in place, and its Adam is fused.
void UseMegatronStates(const TrainingPlan& plan, double held, Static& all) {
  all.weights = 2 * held;
  all.gradients = 4 * held;
  all.optimizer = 12 * held / (IsZero(plan.data_parallel) ? Shards(plan) : 1);
  all.step = 0;
}

// Adds the memory for collective operations and unsharded weights. held: as for UseDeepSpeed().
void AddCollectives(const TrainingPlan& plan, const Sizes& sizes, double held, Static& all) {
  const double parameters = sizes.matrices + sizes.rest;
  // The buckets exist even on one GPU. With a small model, they are only as large as its trained
  // parameters require.
  if (IsZero(plan.data_parallel) || (plan.deepspeed && plan.method == Method::kFull))
    all.buckets = std::min(kDeepSpeedBucketBytes,
                           8 * (plan.method == Method::kFull ? parameters : all.trained));
  if (IsZero(plan.data_parallel) && plan.offload_parameters)
    all.weights = std::min(kLiveParameterBytes, 2 * parameters);
  if (plan.data_parallel == DataParallel::kDdp && plan.ranks > 1)
    all.buckets = all.gradients;  // DDP reduces copies unless gradient_as_bucket_view is set
  if (all.shares_weights) {
    all.root = 2 * sizes.rest;
    all.one_block = BytesOf(plan.quantisation, 2) * (sizes.block - sizes.elsewhere);
    // The weights of a stage remain gathered until all of its micro-batches are done.
    if (Pipelines(plan) && plan.data_parallel == DataParallel::kFsdp)
      all.root = 2 * held, all.one_block = 0;
    if (plan.saves_whole_model) all.whole = 2 * parameters;
  }
}

// Bytes of the other models on the GPU. The reference model is sharded like the trained model, but
// has no gradients or states. Other frozen models are not sharded, and have 16-bit weights if any
// part of training uses 16 bits. An engine that generates answers reserves a share of the GPU.
double BesideOf(const TrainingPlan& plan, double parameters, double by_weights, double averaged) {
  constexpr double kBytesPerMib = 1 << 20;
  const bool on_host = plan.offload_parameters;
  const double reference =
      plan.reference && !on_host ? BytesOf(plan.weights) * parameters / by_weights : 0;
  const double size = plan.amp ? 2 : BytesOf(plan.weights);
  const double frozen = size * static_cast<double>(plan.frozen_parameters);
  return reference + frozen + averaged +
         plan.rollout_share * plan.gpu_mib.value_or(0) * kBytesPerMib;
}

}  // namespace

bool RunsBlocksAgain(const TrainingPlan& plan) {
  return plan.checkpointing == Checkpointing::kFull ||
         plan.checkpointing == Checkpointing::kOperators;
}

double Shards(const TrainingPlan& plan) {
  return static_cast<double>(plan.ranks) * static_cast<double>(plan.context_parallel);
}

bool Pipelines(const TrainingPlan& plan) {
  return plan.pipeline > 1 && plan.in_flight != 1;
}

bool IsZero(DataParallel kind) {
  return kind == DataParallel::kZero1 || kind == DataParallel::kZero2 ||
         kind == DataParallel::kZero3;
}

Sizes SizesOf(const TransformerConfig& config, const TrainingPlan& plan, const Stage& stage) {
  const auto split = static_cast<double>(plan.tensor_parallel);
  const double width = static_cast<double>(config.hidden);
  Sizes here;
  here.layers = stage.layers;
  here.hidden = width;
  here.stream = plan.sequence_parallel ? width / split : width;
  here.query = config.QueryWidth() / split;
  here.key = std::max(config.KeyValueWidth() / split, static_cast<double>(config.head_width));
  const auto narrowest =
      static_cast<double>(config.value_width > 0 ? config.value_width : config.head_width);
  here.value = std::max(config.ValueWidth() / split, narrowest);
  here.output = config.OutputWidth() / split;
  here.forward = config.ActiveForward() / split;
  here.vocabulary = static_cast<double>(config.vocabulary) / split;
  here.heads = static_cast<double>(config.heads) / split;
  here.block = config.BlockParameters() / split;
  here.elsewhere =
      config.ExpertParameters() / split * (1 - 1 / static_cast<double>(plan.expert_parallel));
  here.matrices = config.repeats_block ? here.block : here.block * stage.layers;
  if (config.blocks) here.matrices = config.blocks->Parameters();
  const double table = here.vocabulary * config.TableWidth();
  const double all_rest =
      std::max(0.0, config.TotalParameters() - config.MatrixParameters()) / split;
  if (stage.first && stage.last) {
    here.rest = all_rest + (config.tied && plan.unties_head ? table : 0);
    here.tables = table * (config.tied && !plan.unties_head ? 1 : 2);
  } else {
    here.rest = here.tables = stage.first || stage.last ? table : 0;
  }
  here.sequence = static_cast<double>(plan.sequence) / static_cast<double>(plan.context_parallel);
  const double others = plan.mean_length ? static_cast<double>(*plan.mean_length) /
                                               static_cast<double>(plan.context_parallel)
                                         : here.sequence;
  const auto parts = static_cast<double>(std::max<std::int64_t>(plan.micro_batches, 1));
  const double samples = std::max(1.0, static_cast<double>(plan.batch) / parts);
  here.tokens = here.sequence + others * (samples - 1);
  here.in_flight = stage.in_flight;
  here.has_loss = stage.last;
  return here;
}

Adapters AdaptersOf(const BlockList& list, const TrainingPlan& plan) {
  Adapters all;
  const auto add = [&](bool wanted, const AdaptedMatrices& matrices) {
    if (!wanted) return;
    all.parameters += static_cast<double>(plan.lora_rank) * matrices.widths;
    all.inputs += matrices.inputs;
  };
  add(plan.lora_targets.query, list.query);
  add(plan.lora_targets.key, list.key);
  add(plan.lora_targets.value, list.value);
  add(plan.lora_targets.output, list.output);
  return all;
}

Adapters AdaptersOf(const Sizes& sizes, const TrainingPlan& plan, bool gated) {
  Adapters all;
  const auto add = [&](bool wanted, double in, double out) {
    if (!wanted) return;
    all.parameters += static_cast<double>(plan.lora_rank) * (in + out);
    all.inputs += in;
  };
  const LoraTargets& on = plan.lora_targets;
  add(on.query, sizes.hidden, sizes.query);
  add(on.key, sizes.hidden, sizes.key);
  add(on.value, sizes.hidden, sizes.value);
  add(on.output, sizes.output, sizes.hidden);
  add(on.gate && gated, sizes.hidden, sizes.forward);
  add(on.up, sizes.hidden, sizes.forward);
  add(on.down, sizes.forward, sizes.hidden);
  all.parameters *= sizes.layers;
  return all;
}

Static StaticOf(const Sizes& sizes, const Adapters& adapters, const TrainingPlan& plan) {
  Static all;
  const bool full = plan.method == Method::kFull;
  const bool shards = Shards(plan) > 1;
  const bool fsdp = plan.data_parallel == DataParallel::kFsdp && shards;
  const bool zero3 = plan.data_parallel == DataParallel::kZero3 && shards;
  const bool shards_states = (IsZero(plan.data_parallel) || fsdp) && shards;
  all.shares_weights = fsdp || zero3;
  const double by_weights = all.shares_weights ? Shards(plan) : 1;
  const double by_states = shards_states ? Shards(plan) : 1;
  const double parameters = sizes.matrices + sizes.rest;
  const double elsewhere = sizes.elsewhere * sizes.layers;
  const double held = parameters - elsewhere;

  double plain = BytesOf(plan.weights);
  // FSDP's mixed precision keeps its shards in fp32 and gathers them as 16-bit copies.
  if (full && fsdp && plan.amp) plain = 4;
  const bool quantised = plan.quantisation != Quantisation::kNone;
  const double block_bytes = BytesOf(plan.quantisation, plain);
  const double rest_bytes = quantised ? (plan.fp32_rest ? 4 : 2) : plain;
  const double matrices = sizes.matrices - (all.shares_weights ? 0 : elsewhere);
  all.weights = (block_bytes * matrices + rest_bytes * sizes.rest) / by_weights;
  const double adapter_bytes = plan.lora_16bit ? 2 : 4;
  const double gradient = full ? plain : adapter_bytes;
  all.trained = full ? (shards_states ? parameters : held) : adapters.parameters;
  if (!full) all.weights += adapter_bytes * adapters.parameters / by_weights;
  all.gradients = gradient * all.trained / by_states;
  all.optimizer = StateBytes(plan.optimizer, gradient) * all.trained / by_states;
  if (CopiesInStep(plan.optimizer)) all.step = gradient * all.trained / by_states;
  if (!full && plan.trains_embeddings) {
    const double tables = BytesOf(plan.weights) * sizes.tables;
    all.trained += sizes.tables;
    all.weights += tables;  // PEFT trains copies and keeps the originals
    all.gradients += tables;
    all.optimizer += StateBytes(plan.optimizer, BytesOf(plan.weights)) * sizes.tables;
    if (CopiesInStep(plan.optimizer)) all.step += tables;
  }
  const bool megatron = full && plan.megatron && !all.shares_weights;
  if (megatron) {
    UseMegatronStates(plan, held, all);
  } else if (full && (plan.deepspeed || IsZero(plan.data_parallel))) {
    UseDeepSpeed(plan, parameters, held, all);
  }
  // Autocast keeps 16-bit copies of trained matrices for the backward pass.
  if (plan.amp && plan.weights == Dtype::kFp32 && full && !all.shares_weights &&
      plan.checkpointing == Checkpointing::kNone)
    all.copies = 2 * sizes.matrices;
  // FSDP reduces gradients only in the last pass. Until then, each rank holds all gradients.
  const bool pipelines = Pipelines(plan);
  if (plan.accumulates || pipelines)
    all.waiting =
        fsdp ? (full ? (pipelines && plan.amp ? 4 : 2) : gradient) * all.trained : all.gradients;
  if (plan.step_in_backward) all.gradients = all.waiting = all.step = 0;
  if (plan.offload_optimizer) all.optimizer = all.step = 0;
  // ZeRO's stages 2 and 3 also move the gradients to the host, after reducing them in buckets.
  if (plan.offload_optimizer && ShardsGradients(plan)) all.gradients = all.waiting = 0;
  if (plan.offload_parameters) all.weights = all.gradients = all.step = 0;
  const double averaged = plan.averages ? gradient * all.trained / by_weights : 0;
  all.beside = BesideOf(plan, all.shares_weights ? parameters : held, by_weights, averaged);
  if (!megatron) AddCollectives(plan, sizes, held, all);
  return all;
}

}  // namespace carma::estimate

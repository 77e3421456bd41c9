#include "estimate/transformer/peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/text.h"
#include "estimate/coverage.h"
#include "estimate/loaded_code.h"

namespace carma::estimate {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kGibMib = 1024;

// ---- constants; docs/evidence/estimators.md says what they rest on ----

// Buckets of DeepSpeed for reducing and gathering, at their usual sizes: 4 GB (Qwen's tables).
constexpr double kDeepSpeedBucketBytes = 4e9;
// Parameters that its third stage keeps on the GPU although they are offloaded, at its usual limit.
constexpr double kLiveParameterBytes = 2e9;
// CUDA context, libraries and their workspaces of a process that trains.
const double kContextMib = ShippedMib({Loading::kLazy, Libraries::kSequences});
// What collective operations and their streams hold besides on a GPU that shares its weights: so
// much of what moves, and no more than this.
constexpr double kShardingShare = 0.4;
constexpr double kShardingMib = 2.5 * kGibMib;
// Reserved bytes per byte of logits and activations: blocks of changing sizes leave gaps. By what
// decides, from runs of fixed length; a size that never comes back needs the last one.
constexpr double kSpreadLayer = 1.2;
constexpr double kSpreadStock = 1.35;
constexpr double kSpreadInPlace = 1.6;
constexpr double kSpreadKept = 1.05;  // without checkpointing: blocks that stay leave no gaps
constexpr double kStepKept = 0.3;     // of gradients and the step's temporaries, besides
constexpr double kSpreadKeptVariable = 1.5;
constexpr double kSpreadVariable = 2.7;
// Segments that grow in place leave hardly any: 1.01 to 1.17 on an H100.
constexpr double kSpreadExpandable = 1.1;
constexpr double kSpreadVariableShared = 1.6;  // frozen weights that are shared: a block decides

// Quantiles of measured / predicted over the runs, from 0.9 on a little more. The last column is
// judgement.
constexpr CoverageFactors kNeededFactors{1.00, 1.04, 1.10, 1.16, 1.35, 2.0};
constexpr CoverageFactors kShownFactors{1.00, 1.08, 1.16, 1.24, 1.45, 2.0};
constexpr CoverageFactors kVariableFactors{1.00, 1.15, 1.27, 1.42, 1.70, 2.5};
// Of trainings whose like no measured run is: twice as far above 1 as the others, by judgement.
constexpr CoverageFactors kNeededUnseen{1.00, 1.08, 1.20, 1.32, 1.70, 3.0};
constexpr CoverageFactors kShownUnseen{1.00, 1.16, 1.32, 1.48, 1.90, 3.0};
constexpr CoverageFactors kVariableUnseen{1.00, 1.30, 1.54, 1.84, 2.40, 4.0};

// ---- the model as one rank sees it ----

// Bytes per parameter of a matrix in the blocks: 4 bits and their scales (nf4: one fp32 scale per
// 64 weights, quantised again with double quantisation; GPTQ: a scale and a zero per 128).
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

bool RunsBlocksAgain(const TrainingPlan& plan) {
  return plan.checkpointing == Checkpointing::kFull ||
         plan.checkpointing == Checkpointing::kOperators;
}

double BytesOf(Dtype dtype) {
  return dtype == Dtype::kFp32 ? 4 : 2;
}

// One pipeline stage of one tensor-parallel rank.
struct Stage {
  double layers = 0;
  bool first = true;     // holds the embedding
  bool last = true;      // holds the head and the loss
  double in_flight = 1;  // micro-batches whose block inputs it keeps
};

struct Sizes {
  double layers = 0;
  double stream = 0;  // width of the residual stream that this rank keeps
  double hidden = 0, query = 0, key = 0, value = 0, output = 0, forward = 0, vocabulary = 0;
  double heads = 0;
  double block = 0;      // parameters of one block's matrices
  double matrices = 0;   // of all blocks here
  double elsewhere = 0;  // of these: experts of one block that other GPUs have
  double rest = 0;       // embedding, head, norms
  double tables = 0;     // embedding and head alone
  double tokens = 0;     // of one micro-batch
  double sequence = 0;
  double in_flight = 1;
  bool has_loss = true;
};

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

struct Adapters {
  double parameters = 0;  // of all blocks
  double inputs = 0;      // widths of the adapted matrices' inputs, of one block
};

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

// ---- what stays from step to step ----

struct Static {
  double weights = 0;  // bytes, all of these
  double copies = 0;   // of weights in 16 bits, from the forward pass until a block's backward pass
  double gradients = 0;
  double waiting = 0;  // gradients that wait for more passes, while the next one runs
  double optimizer = 0;
  double step = 0;       // temporaries of the optimizer's step
  double buckets = 0;    // of the collective operations, always
  double root = 0;       // unsharded embedding and head while blocks run
  double one_block = 0;  // an unsharded block
  double whole = 0;      // all weights unsharded, for saving
  double trained = 0;    // parameters
  bool shares_weights = false;
};

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

// The foreach implementations, which PyTorch takes unless told otherwise, make a copy of all
// trained parameters' size; fused and 8-bit kernels none, nor SGD without momentum and decay.
bool CopiesInStep(StepOptimizer optimizer) {
  return optimizer == StepOptimizer::kAdam || optimizer == StepOptimizer::kMomentum;
}

bool IsZero(DataParallel kind) {
  return kind == DataParallel::kZero1 || kind == DataParallel::kZero2 ||
         kind == DataParallel::kZero3;
}

// DeepSpeed in 16 bits: weights and gradients in 16, masters and states in 32. held: of the
// parameters those that are on this GPU where nothing shares them.
void UseDeepSpeed(const TrainingPlan& plan, double parameters, double held, Static& all) {
  const auto ranks = static_cast<double>(plan.ranks);
  const bool shards_gradients =
      plan.data_parallel == DataParallel::kZero2 || plan.data_parallel == DataParallel::kZero3;
  all.weights = plan.data_parallel == DataParallel::kZero3 ? 2 * parameters / ranks : 2 * held;
  all.gradients = shards_gradients ? 2 * parameters / ranks : 2 * held;
  all.optimizer = 12 * parameters / ranks;
  all.step = 4 * parameters / ranks;  // gradients in fp32 for the step
}

Static StaticOf(const Sizes& sizes, const Adapters& adapters, const TrainingPlan& plan) {
  Static all;
  const bool full = plan.method == Method::kFull;
  const bool fsdp = plan.data_parallel == DataParallel::kFsdp && plan.ranks > 1;
  const bool zero3 = plan.data_parallel == DataParallel::kZero3 && plan.ranks > 1;
  const bool shards_states = (IsZero(plan.data_parallel) || fsdp) && plan.ranks > 1;
  all.shares_weights = fsdp || zero3;
  const double by_weights = all.shares_weights ? static_cast<double>(plan.ranks) : 1;
  const double by_states = shards_states ? static_cast<double>(plan.ranks) : 1;
  const double parameters = sizes.matrices + sizes.rest;
  const double elsewhere = sizes.elsewhere * sizes.layers;
  const double held = parameters - elsewhere;

  double plain = BytesOf(plan.weights);
  // FSDP's mixed precision keeps its shards in fp32 and makes 16-bit copies of what it gathers.
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
  if (full && (plan.deepspeed || IsZero(plan.data_parallel)))
    UseDeepSpeed(plan, parameters, held, all);
  // Autocast makes a 16-bit copy of every matrix, which the backward pass of a trained one needs.
  if (plan.amp && plan.weights == Dtype::kFp32 && full && !all.shares_weights &&
      plan.checkpointing == Checkpointing::kNone)
    all.copies = 2 * sizes.matrices;
  // FSDP reduces them at the last pass only: until then each rank holds all of them.
  const bool pipelines = plan.pipeline > 1 && plan.in_flight != 1;
  if (plan.accumulates || pipelines)
    all.waiting =
        fsdp ? (full ? (pipelines && plan.amp ? 4 : 2) : gradient) * all.trained : all.gradients;
  if (plan.step_in_backward) all.gradients = all.waiting = all.step = 0;
  if (plan.offload_optimizer) all.optimizer = all.step = 0;
  if (plan.offload_parameters) all.weights = all.gradients = all.step = 0;

  // On one GPU too; a small model fills them once.
  if (IsZero(plan.data_parallel) || (plan.deepspeed && full))
    all.buckets = std::min(kDeepSpeedBucketBytes, 8 * parameters);
  if (IsZero(plan.data_parallel) && plan.offload_parameters)
    all.weights = std::min(kLiveParameterBytes, 2 * parameters);
  if (plan.data_parallel == DataParallel::kDdp && plan.ranks > 1)
    all.buckets = all.gradients;  // DDP reduces copies unless gradient_as_bucket_view is set
  if (all.shares_weights) {
    all.root = 2 * sizes.rest;
    all.one_block = BytesOf(plan.quantisation, 2) * (sizes.block - sizes.elsewhere);
    // A stage's weights stay gathered over its micro-batches.
    if (pipelines && fsdp) all.root = 2 * held, all.one_block = 0;
    if (plan.saves_whole_model) all.whole = 2 * parameters;
  }
  return all;
}

// ---- what grows with the tokens ----

// Bytes per token.
struct PerToken {
  double inputs = 0;       // of all blocks, kept from the forward pass on
  double block = 0;        // one block keeps for its backward pass, and makes on the way
  double kept = 0;         // of this what stays
  double temporaries = 0;  // of one block's backward pass
  double loss = 0;         // of the scores, at the loss
  double held = 0;         // of the scores, while the first blocks run backward
  double above = 0;        // around the loss, without the scores
  double stays = 0;        // what FSDP with frozen weights does not free on the way
};

// Scores over the vocabulary: log-softmax, its gradient and theirs, in fp32 where autocast or the
// code casts them, which that of causal models does. Whoever holds them besides (a loop of one's
// own; Trainer does not) is not known.
void AddLoss(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
             bool shares_weights, PerToken& per) {
  const bool casts = config.rms_norm || plan.weights == Dtype::kFp32;
  const Loss loss = config.classifies ? Loss::kNone : plan.loss;
  const double copy = casts || plan.amp ? 4 : 2;
  double bytes = casts ? 12 : plan.amp ? 16 : 8;
  if (plan.fp32_rest) bytes = 16;  // the head is fp32, and so are its scores
  switch (loss) {
    case Loss::kStock:
      // The caller holds the scores until the step is over; FSDP's code does not.
      if (!shares_weights) per.held = copy * sizes.vocabulary;
      break;
    case Loss::kInPlace:
      bytes -= copy;
      break;
    case Loss::kSplit:
      bytes = 10;
      break;
    case Loss::kChunked:
      bytes = 3;
      break;
    case Loss::kFused:
    case Loss::kNone:
      bytes = 0;
      break;
  }
  if (config.capped_scores && bytes > 0) bytes += 4;
  per.loss = bytes * sizes.vocabulary;
  per.above = (plan.fused_layers ? 4 : 8) * sizes.stream;
}

// Bytes per element of the attention matrix where no fused kernel spares it: what softmax makes
// (fp32 under autocast and in the code of RMSNorm families), its 16-bit copy, a dropout's mask and
// result.
double MatrixBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool fp32 = plan.weights == Dtype::kFp32;
  if (plan.amp) return 6 + (config.drops_out ? 5 : 0);
  if (fp32) return 4 + (config.drops_out ? 5 : 0);
  return (config.rms_norm ? 6 : 2) + (config.drops_out ? 3 : 0);
}

// PEFT's frozen weights, without checkpointing: what only their gradients would need is not kept.
// Other libraries' adapters (they are in 16 bits) were compared as they are.
bool KeepsLess(const TrainingPlan& plan) {
  return plan.method == Method::kLora && !plan.lora_16bit && !RunsBlocksAgain(plan);
}

// Of both norms, at two bytes an element. An RMSNorm as it is written in Transformers keeps what it
// reads in fp32, the quotient if its weight is trained, and the result; a LayerNorm what it reads
// and what it makes.
double NormBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool fp32 = plan.weights == Dtype::kFp32;
  if (!config.rms_norm) return plan.amp ? 12 : 8;
  if (plan.fused_layers) return 8;
  if (fp32 && plan.amp) return 26;  // each matrix casts what it reads anew
  if (fp32) return 12;
  return KeepsLess(plan) ? 8 : 16;
}

// Of the feed-forward part, per element of its inner width. A frozen matrix needs no input.
double ForwardBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool frozen = plan.method == Method::kLora;
  double bytes = config.gated ? (frozen ? 6 : 8) : (frozen ? 2 : 4);
  if (config.written_out_gelu) bytes += plan.amp ? 12 : 6;
  return bytes + (frozen && plan.keeps_frozen_inputs ? 2 : 0);
}

// The blocks that run on the same tokens: all of them, or those of an encoder or of a decoder.
struct Stack {
  double layers = 0;
  double keys = 0;   // tokens that an attention sees, both attentions of a decoder together
  double read = 0;   // of a decoder: tokens of the encoder for each of its own; 0: it reads none
  bool last = true;  // has the loss above it
};

// What one block keeps: inputs of norms, of attention, of the feed-forward part, of adapters.
void AddBlock(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
              const Adapters& adapters, const Stack& stack, PerToken& per) {
  const double grown = plan.weights == Dtype::kFp32 && !plan.amp ? 2 : 1;
  const bool frozen = plan.method == Method::kLora;
  double attention = 2 * (sizes.query + sizes.key + sizes.value + sizes.output);
  if (stack.read > 0) {
    attention += 2 * (sizes.query + sizes.output) + 2 * stack.read * (sizes.key + sizes.value);
  }
  if (frozen && plan.keeps_frozen_inputs) attention += 4 * sizes.hidden + 2 * sizes.query;
  double matrix = 0;
  if (plan.attention == Attention::kEager && plan.checkpointing != Checkpointing::kAttention)
    matrix = MatrixBytes(config, plan) * sizes.heads * stack.keys;
  const double masks = config.drops_out ? 2 * sizes.stream : 0;
  const double copied = plan.amp || plan.lora_16bit ? 2 : 4;
  const double adapted = copied + (plan.lora_dropout ? 5 : 0);
  // A norm for each attention and one for the feed-forward part.
  const double norms = (stack.read > 0 ? 1.5 : 1) * NormBytes(config, plan);
  per.block =
      grown * (norms * sizes.stream + attention + ForwardBytes(config, plan) * sizes.forward) +
      matrix + masks + adapted * (frozen ? adapters.inputs : 0);
  // A dropped copy is kept in place of the copy.
  per.kept = per.block;
  if (KeepsLess(plan) && plan.lora_dropout) per.kept -= copied * adapters.inputs;
  per.temporaries = grown * (config.gated ? 6 : 4) * sizes.forward;
}

// The residual stream itself is kept where the norms read a copy of it.
bool KeepsStream(const TransformerConfig& config, const TrainingPlan& plan) {
  return config.rms_norm && plan.weights != Dtype::kFp32 && !KeepsLess(plan);
}

// What stays of a block whose cheap operations alone are computed again: the result of attention,
// and of every second matrix product: queries, values, one of the feed-forward part and the last.
double ProductBytes(const Sizes& sizes, const TrainingPlan& plan) {
  const double size = plan.weights == Dtype::kFp32 && !plan.amp ? 4 : 2;
  return size * (sizes.output + sizes.query + sizes.value + sizes.forward + sizes.stream);
}

PerToken PerTokenOf(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
                    const Adapters& adapters, const Stack& stack, bool shares_weights) {
  PerToken per;
  // Autocast runs LayerNorm in fp32, and what is added to its result follows.
  const bool wide =
      plan.weights == Dtype::kFp32 || plan.fp32_residual || (plan.amp && !config.rms_norm);
  AddBlock(config, plan, sizes, adapters, stack, per);
  const double residual = (wide ? 4 : 2) * sizes.stream;
  if (sizes.has_loss && stack.last) AddLoss(config, plan, sizes, shares_weights, per);
  if (plan.checkpointing == Checkpointing::kFull) {
    const double again = 1 / static_cast<double>(plan.checkpoint_every);
    const double apart = KeepsStream(config, plan) ? residual : 0;
    per.inputs =
        stack.layers * sizes.in_flight * (again * residual + (1 - again) * (per.kept + apart));
    if (shares_weights && plan.method == Method::kLora && plan.data_parallel == DataParallel::kFsdp)
      per.stays = 2 * std::max(0.0, stack.layers - 2) * sizes.hidden;
  } else if (plan.checkpointing == Checkpointing::kOperators) {
    per.inputs = stack.layers * sizes.in_flight * (residual + ProductBytes(sizes, plan));
  } else {
    const double apart = KeepsStream(config, plan) ? residual : 0;
    per.inputs = stack.layers * (per.kept + apart) * sizes.in_flight;
  }
  // Two blocks' share is on its way at a time.
  if (plan.offload_activations) per.inputs *= std::min(1.0, 2 / std::max(1.0, stack.layers));
  return per;
}

// An encoder's tokens come before the decoder's, which stand for both: what the former keep counts
// for the latter. tokens: of the decoder; those of the encoder are sizes.tokens.
PerToken PerTokenOfBoth(const TransformerConfig& config, const TrainingPlan& plan,
                        const Sizes& sizes, const Adapters& adapters, double tokens,
                        bool shares_weights) {
  const double target = plan.target ? static_cast<double>(*plan.target) : sizes.sequence;
  const double share =
      static_cast<double>(config.decoder_layers) / static_cast<double>(config.layers);
  const double read = sizes.tokens / tokens;
  const Stack decoder{
      .layers = share * sizes.layers, .keys = target + sizes.sequence, .read = read};
  const Stack encoder{.layers = (1 - share) * sizes.layers, .keys = sizes.sequence, .last = false};
  PerToken both = PerTokenOf(config, plan, sizes, adapters, decoder, shares_weights);
  const PerToken before = PerTokenOf(config, plan, sizes, adapters, encoder, shares_weights);
  both.inputs += read * before.inputs;
  both.stays += read * before.stays;
  if (both.block + both.temporaries < read * (before.block + before.temporaries)) {
    both.block = read * before.block;
    both.temporaries = read * before.temporaries;
  }
  return both;
}

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
    const double copied = phase == TrainingPhase::kLoss ? all.copies : 0;
    moments.push_back({phase,
                       {.weights = (all.weights + copied) / kMib,
                        .gradients = gradients / kMib,
                        .optimizer = all.optimizer / kMib,
                        .logits = tokens * logits / kMib,
                        .activations = tokens * activations / kMib,
                        .working = working / kMib}});
  };
  add(TrainingPhase::kStep, all.gradients, 0, 0, all.step + all.buckets);
  add(TrainingPhase::kLoss, waiting, per.loss, per.inputs + (again ? per.above : 0), copies);
  if (again) {
    const double block = per.block + per.temporaries;
    add(TrainingPhase::kLayer, waiting, per.held, per.inputs + block + per.stays,
        copies + all.one_block);
    add(TrainingPhase::kEnd, std::max(waiting, all.gradients), 0, block, copies + all.one_block);
  } else {
    add(TrainingPhase::kEnd, std::max(waiting, all.gradients), 0, 0, copies + all.one_block);
  }
  if (all.whole > 0) add(TrainingPhase::kSave, 0, 0, 0, all.whole + all.buckets);
  return moments;
}

struct RankPeak {
  Moment moment;
  double reserved_mib = 0;
  double trained = 0;
};

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

// Activations come and go in blocks of many sizes, and what the optimizer allocates in its first
// step finds them cached: both together, and the gaps between them. moments: the step first.
double ReservedMib(const std::vector<Moment>& moments, const Static& all, double needed,
                   const TrainingPlan& plan) {
  const Moment& busiest = *std::max_element(
      moments.begin(), moments.end(),
      [](const Moment& a, const Moment& b) { return MovingMib(a) < MovingMib(b); });
  const double moving = MovingMib(busiest);
  const double spread = SpreadOf(busiest, all.shares_weights, plan);
  double free_running = moments.front().parts.Sum() + busiest.parts.working + spread * moving;
  // Where all blocks' activations stay, the step finds nearly enough of them free again.
  if (!RunsBlocksAgain(plan) && !all.shares_weights) {
    const MemoryParts& step = moments.front().parts;
    free_running = needed + (spread - 1) * moving + kStepKept * (step.gradients + step.working);
  }
  if (all.shares_weights) {
    free_running += std::min(kShardingMib, kShardingShare * moving) +
                    std::max(0.0, all.waiting - all.gradients) / kMib;
  }
  // Short of memory, the allocator gives cached blocks back: between what is needed and the GPU.
  if (plan.gpu_mib && free_running + kContextMib > *plan.gpu_mib) {
    const double room = std::max(*plan.gpu_mib - kContextMib, needed);
    return (needed + room) / 2;
  }
  return std::max(needed, free_running);
}

// FSDP's mixed precision runs blocks on 16-bit copies of whatever its shards are stored in.
TrainingPlan AsActivations(const TrainingPlan& plan) {
  TrainingPlan acts = plan;
  if (plan.data_parallel == DataParallel::kFsdp && plan.ranks > 1 && plan.amp)
    acts.weights = acts.weights == Dtype::kFp32 ? Dtype::kBf16 : acts.weights;
  return acts;
}

RankPeak PeakOf(const TransformerConfig& config, const TrainingPlan& plan, const Stage& stage) {
  Sizes sizes = SizesOf(config, plan, stage);
  const Adapters adapters =
      plan.method == Method::kLora ? AdaptersOf(sizes, plan, config.gated) : Adapters{};
  const Static all = StaticOf(sizes, adapters, plan);
  const TrainingPlan acts = AsActivations(plan);
  PerToken per;
  if (config.decoder_layers > 0) {
    const double tokens = plan.target ? static_cast<double>(*plan.target * plan.batch) /
                                            static_cast<double>(plan.context_parallel)
                                      : sizes.tokens;
    per = PerTokenOfBoth(config, acts, sizes, adapters, tokens, all.shares_weights);
    sizes.tokens = tokens;
  } else {
    const Stack stack{.layers = sizes.layers, .keys = sizes.sequence};
    per = PerTokenOf(config, acts, sizes, adapters, stack, all.shares_weights);
  }
  const std::vector<Moment> moments = MomentsOf(all, per, sizes, plan);
  RankPeak peak;
  peak.trained = all.trained;
  peak.moment = *std::max_element(
      moments.begin(), moments.end(),
      [](const Moment& a, const Moment& b) { return a.parts.Sum() < b.parts.Sum(); });
  peak.reserved_mib = ReservedMib(moments, all, peak.moment.parts.Sum(), plan);
  return peak;
}

// Micro-batches that the first stage keeps, in passes through all of its layers.
double InFlight(const TrainingPlan& plan) {
  if (plan.in_flight > 0) return static_cast<double>(plan.in_flight);
  const auto stages = static_cast<double>(plan.pipeline);
  const auto parts = static_cast<double>(plan.micro_batches);
  const auto parts_of_gpu = static_cast<double>(plan.stages_per_gpu);
  double most = stages;
  // Of an interleaved schedule the first of its stages runs ahead of all others.
  if (plan.schedule == Schedule::kInterleaved)
    most = (2 * (stages - 1) + (parts_of_gpu - 1) * stages + 1) / parts_of_gpu;
  if (plan.schedule == Schedule::kGpipe) most = std::max(parts, stages);
  return parts > 0 ? std::min(most, parts) : most;
}

// The first stage keeps the most micro-batches, the last has the loss.
std::vector<Stage> StagesOf(const TransformerConfig& config, const TrainingPlan& plan) {
  const auto layers = static_cast<double>(config.layers);
  if (plan.pipeline == 1) return {{.layers = layers}};
  const double part = std::ceil(layers / static_cast<double>(plan.pipeline));
  const double most = InFlight(plan);
  return {{.layers = part, .last = false, .in_flight = most}, {.layers = part, .first = false}};
}

Result<base::Unit> Check(const TransformerConfig& config, const TrainingPlan& plan) {
  const auto wrong = [](std::string text) { return Fail(ErrorCode::kInvalid, std::move(text)); };
  if (plan.sequence < 1 || plan.batch < 1 || plan.mean_length.value_or(1) < 1 ||
      plan.target.value_or(1) < 1)
    return wrong("expected at least one token");
  if (plan.expert_parallel > 1 && plan.ranks % plan.expert_parallel != 0)
    return wrong(fmt::format("--ep {}: expected a divisor of the {} data-parallel GPUs",
                             plan.expert_parallel, plan.ranks));
  if (plan.expert_parallel > 1 && config.experts % plan.expert_parallel != 0)
    return wrong(fmt::format("--ep {}: expected a divisor of the {} experts", plan.expert_parallel,
                             config.experts));
  if (plan.micro_batches > plan.batch)
    return wrong(fmt::format("--micro-batches {}: expected at most --batch {}", plan.micro_batches,
                             plan.batch));
  if (plan.ranks < 1 || plan.tensor_parallel < 1 || plan.pipeline < 1 || plan.context_parallel < 1)
    return wrong("expected at least one GPU in every direction");
  if (plan.pipeline > config.layers)
    return wrong(fmt::format("{} pipeline stages: expected at most one for each of the {} layers",
                             plan.pipeline, config.layers));
  if (plan.method == Method::kFull && plan.quantisation != Quantisation::kNone)
    return wrong("quantised weights cannot be trained in full: expected method lora or qlora");
  return base::Unit{};
}

// What of a training no measured run did, or runs of a single source in which little was stated.
// Empty: it is of a kind that was compared.
std::string UnseenOf(const TransformerConfig& config, const TrainingPlan& plan) {
  std::vector<std::string> unseen;
  if (config.decoder_layers > 0) unseen.emplace_back("an encoder and a decoder");
  if (config.latent_parameters > 0) unseen.emplace_back("latent attention");
  if (config.repeats_block) unseen.emplace_back("one block repeated");
  if (config.sees_images) unseen.emplace_back("patches of images");
  if (config.other_parameters > 0 && !config.one_length)
    unseen.emplace_back("an encoder of images beside");
  const bool shares = plan.ranks > 1 && (plan.data_parallel == DataParallel::kFsdp ||
                                         plan.data_parallel == DataParallel::kZero3);
  if (plan.tensor_parallel > 1) unseen.emplace_back("tensor parallelism");
  if (plan.context_parallel > 1) unseen.emplace_back("context parallelism");
  if (plan.pipeline > 1 && plan.in_flight != 1) unseen.emplace_back("pipelines");
  if (plan.ranks > 1 && IsZero(plan.data_parallel)) unseen.emplace_back("ZeRO");
  if (plan.offload_optimizer || plan.offload_parameters || plan.offload_activations)
    unseen.emplace_back("offloading");
  if (plan.step_in_backward) unseen.emplace_back("a step inside the backward pass");
  if (plan.checkpointing == Checkpointing::kOperators || plan.checkpoint_every > 1)
    unseen.emplace_back("selective checkpointing");
  if (plan.expert_parallel > 1) unseen.emplace_back("expert parallelism");
  if (shares && plan.checkpointing == Checkpointing::kNone)
    unseen.emplace_back("sharded weights without checkpointing");
  return base::Join(unseen, ", ");
}

// What the whole model has beyond what config.json describes is counted by its weights.
TransformerConfig WithAllParameters(const TransformerConfig& described, const TrainingPlan& plan) {
  TransformerConfig config = described;
  if (plan.parameters == 0) return config;
  const double more = static_cast<double>(plan.parameters) - config.TotalParameters();
  config.stated_parameters = static_cast<double>(plan.parameters);
  // A few per cent are biases and rounding, not a part.
  if (more > 0.02 * config.TotalParameters() && !config.one_length) config.other_parameters += more;
  return config;
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
  return weights + gradients + optimizer + logits + activations + working;
}

Result<TransformerEstimate> EstimateTransformer(const TransformerConfig& described,
                                                const TrainingPlan& asked, double coverage) {
  TrainingPlan plan = asked;
  const TransformerConfig config = WithAllParameters(described, plan);
  if (config.unfused_attention) plan.attention = Attention::kEager;
  if (Result<base::Unit> checked = Check(config, plan); !checked)
    return std::unexpected(checked.error());
  TransformerEstimate estimate;
  estimate.parameters = config.TotalParameters();
  estimate.coverage = coverage;
  estimate.context_mib = kContextMib;
  const bool plain_ddp = plan.data_parallel == DataParallel::kDdp && plan.ranks > 1;
  if (plain_ddp) estimate.context_mib += kCollectivesMib;  // of the others the 2.5 GiB speak
  double highest = -1;
  for (const Stage& stage : StagesOf(config, plan)) {
    const RankPeak peak = PeakOf(config, plan, stage);
    estimate.trained_parameters = std::max(estimate.trained_parameters, peak.trained);
    if (peak.reserved_mib <= highest) continue;
    highest = peak.reserved_mib;
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
  if (!unseen.empty()) {
    estimate.warnings.push_back(
        fmt::format("hardly a measured run with {} was compared: the bound is wider", unseen));
  }
  if (plan.variable_length)
    estimate.warnings.emplace_back(
        "lengths vary: the sequence length is taken for the longest, and the gaps that changing "
        "lengths leave are the least certain part");
  if (!config.uncounted.empty() && plan.parameters == 0) {
    estimate.warnings.push_back(
        fmt::format("config.json describes parts that are not counted: {} (--parameters tells what "
                    "the whole model has)",
                    base::Join(config.uncounted, ", ")));
  }
  if (config.other_parameters > 0 && !config.one_length) {
    estimate.warnings.emplace_back(
        "what is beside the stack of texts is counted by its weights alone: its tokens belong to "
        "the "
        "sequence length, what it keeps itself is not known (carma_summary.py counts it)");
  }
  if (config.experts > 1 && plan.method == Method::kLora)
    estimate.warnings.emplace_back("adapters of experts are not counted apart");
  return estimate;
}

}  // namespace carma::estimate

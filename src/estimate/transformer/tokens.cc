// Computes the memory that grows with the number of tokens.
#include "estimate/transformer/tokens.h"

#include <algorithm>

namespace carma::estimate {
namespace {

// Bytes of a norm's result once sequence parallelism has gathered it over all tokens, less the part
// of the residual stream that a GPU keeps anyway. In the backward pass, the matrices that read the
// result produce a gradient of the same size, which is then scattered. Both tensors are 16-bit.
double GatheredBytes(const TrainingPlan& plan, const Sizes& sizes) {
  return plan.sequence_parallel ? 2 * (sizes.hidden - sizes.stream) : 0;
}

// Adds the memory of the loss over the vocabulary: log-softmax, its gradient and the gradient of
// the logits. All three are fp32 if the logits are cast, either by autocast or by the model's code,
// as in causal models. If the code does not cast them (plain_loss), log-softmax under autocast
// reads 16-bit logits and their gradient is 16-bit. The Trainer does not keep the logits. A custom
// training loop might keep them, but CARMA cannot detect this.
void AddLoss(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
             bool shares_weights, PerToken& per) {
  const bool casts = config.rms_norm || plan.weights == Dtype::kFp32;
  const Loss loss = config.classifies ? Loss::kNone : plan.loss;
  const bool wide = plan.weights == Dtype::kFp32 && !plan.amp;
  double copy = casts || plan.amp ? 4 : 2;
  double bytes = casts ? 12 : plan.amp ? 16 : 8;
  if (config.plain_loss) {
    copy = wide ? 4 : 2;
    bytes = wide ? 12 : plan.amp ? 10 : 6;
  }
  if (plan.fp32_rest) bytes = 16;  // head and logits are fp32
  switch (loss) {
    case Loss::kStock:
      // The caller holds the logits until the end of the step, except with FSDP.
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
  per.above = (plan.fused_layers ? 4 : 8) * sizes.stream + 2 * GatheredBytes(plan, sizes);
}

// Bytes per element of the attention matrix without a fused kernel: softmax's result (fp32 under
// autocast and in the code of RMSNorm families), its 16-bit copy, and a dropout's mask and result.
double MatrixBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool fp32 = plan.weights == Dtype::kFp32;
  if (plan.amp) return 6 + (config.drops_scores ? 5 : 0);
  if (fp32) return 4 + (config.drops_scores ? 5 : 0);
  return (config.rms_norm || config.wide_scores ? 6 : 2) + (config.drops_scores ? 3 : 0);
}

// Bytes per element of the attention matrix during the backward pass: the gradients of softmax's
// result and input.
double MatrixGradientBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool wide = plan.amp || config.rms_norm || config.wide_scores;
  return plan.weights == Dtype::kFp32 || wide ? 8 : 4;
}

// Returns true if the tensors that only the gradients of frozen weights would need are dropped.
// This is the case with PEFT, unless blocks run again (checkpointing). The 16-bit adapters of other
// libraries are an exception, because the formula for them was fitted without this rule.
bool KeepsLess(const TrainingPlan& plan) {
  return plan.method == Method::kLora && !plan.lora_16bit && !RunsBlocksAgain(plan);
}

// The bytes of a block's two norms. Transformers' RMSNorm keeps its input in fp32, its result and,
// if its weight is trained, the normalised input. LayerNorm keeps its input and its result. Under
// autocast the result is fp32, and each matrix keeps its own copy.
double NormBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool fp32 = plan.weights == Dtype::kFp32;
  if (!config.rms_norm && plan.amp)
    return config.one_projection || plan.method == Method::kLora ? 12 : 16;
  if (!config.rms_norm) return 8;
  if (plan.fused_layers) return 8;
  if (fp32 && plan.amp) return 26;  // each matrix casts its own input
  if (fp32) return 12;
  return KeepsLess(plan) ? 8 : 16;
}

// The bytes of the norm before a decoder's second attention layer. Only the queries read this norm.
double CrossNormBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  if (!config.rms_norm && plan.amp) return 6;
  return NormBytes(config, plan) / 2;
}
// Bytes of the copies that a decoder's second attention layer makes of the encoder's output, to
// compute its keys and values.
double CrossCopyBytes(const TrainingPlan& plan) {
  return plan.amp && plan.method == Method::kFull ? 4 : 0;
}

// The bytes of the feed-forward part, per element of its inner width. The input of a frozen matrix
// is not needed.
double ForwardBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool frozen = plan.method == Method::kLora;
  double bytes = config.gated ? (frozen ? 6 : 8) : (frozen ? 2 : 4);
  if (config.written_out_gelu) bytes += plan.amp ? 12 : 6;
  if (config.quick_gelu) bytes += 2;
  return bytes + (frozen && plan.keeps_frozen_inputs ? 2 : 0);
}

// Bytes per element that the norms of queries and keys keep: the input in fp32, the normalised
// input if the norm's weight is trained, and in diffusers' code also the input in 16 bits. The
// norm's result is not kept, because it is rotated immediately. The rotated tensor is counted
// elsewhere.
double HeadNormBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  if (!config.norms_heads) return 0;
  const bool fp32 = plan.weights == Dtype::kFp32 && !plan.amp;
  if (plan.method == Method::kLora) return 4;
  if (config.diffuses) return plan.amp ? 10 : 8;
  return fp32 ? 8 : 6;
}

// Bytes that a block keeps, per element of the residual stream, because scales and gates depend on
// the sample. The results of both norms, of attention and of the feed-forward part are multiplied
// by scales or gates, so the backward pass needs these results. Nothing is kept if the layers that
// compute the scales are frozen. If attention and feed-forward run in parallel, they share one norm
// and one result, but the block concatenates the inputs of its last matrix.
double ModulationBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  if (!config.modulated || plan.method == Method::kLora) return 0;
  const double beside = config.side_by_side;
  if (plan.amp) return 12 - 8 * beside;
  return plan.weights == Dtype::kFp32 ? 16 - 12 * beside : 8 - 6 * beside;
}

// Adds the bytes that one block keeps: the inputs of the norms, the attention, the feed-forward
// part and the adapters.
void AddBlock(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
              const Adapters& adapters, const Stack& stack, PerToken& per) {
  const double grown = plan.weights == Dtype::kFp32 && !plan.amp ? 2 : 1;
  const bool frozen = plan.method == Method::kLora;
  double attention = 2 * (sizes.query + sizes.key + sizes.value + sizes.output);
  if (stack.read > 0)
    attention += 2 * (sizes.query + sizes.output) + 2 * stack.read * (sizes.key + sizes.value);
  if (config.reads_text)
    attention += 2 * (sizes.query + sizes.output) + (frozen ? 0 : 2 * sizes.hidden);
  if (frozen && plan.keeps_frozen_inputs) attention += 4 * sizes.hidden + 2 * sizes.query;
  double matrix = 0;
  double gradients = 0;  // gradients of the attention matrix
  if (plan.attention == Attention::kEager) {
    if (plan.checkpointing != Checkpointing::kAttention)
      matrix = MatrixBytes(config, plan) * sizes.heads * stack.keys;
    gradients = MatrixGradientBytes(config, plan) * sizes.heads * stack.keys;
  }
  const double masks =
      (config.drops_out ? 2 * sizes.stream : 0) + (config.drops_forward ? sizes.forward : 0);
  const double copied = plan.amp || plan.lora_16bit ? 2 : 4;
  const double adapted = copied + (plan.lora_dropout ? 5 : 0);
  // Each attention layer and the feed-forward part usually have one norm.
  double norms = static_cast<double>(config.norms) / 2 * NormBytes(config, plan);
  if (stack.read > 0) norms += CrossNormBytes(config, plan) + stack.read * CrossCopyBytes(plan);
  per.block =
      grown * (norms * sizes.stream + attention + ForwardBytes(config, plan) * sizes.forward) +
      matrix + masks + adapted * (frozen ? adapters.inputs : 0) +
      HeadNormBytes(config, plan) * (sizes.query + sizes.key) +
      ModulationBytes(config, plan) * sizes.stream;
  // Adds the gathered inputs of the attention and feed-forward parts. Megatron does not keep them
  // but gathers them again.
  if (!plan.megatron) per.block += 2 * grown * GatheredBytes(plan, sizes);
  // With LoRA dropout, the adapters keep a copy of the dropout's result instead of a copy of its
  // input.
  per.kept = per.block;
  if (KeepsLess(plan) && plan.lora_dropout) per.kept -= copied * adapters.inputs;
  per.temporaries = std::max(
      grown * ((config.gated ? 6 : 4) * sizes.forward + 2 * GatheredBytes(plan, sizes)), gradients);
}

// Returns true if the norms read a copy of the residual stream, so the stream itself is kept too.
bool KeepsStream(const TransformerConfig& config, const TrainingPlan& plan) {
  return config.rms_norm && plan.weights != Dtype::kFp32 && !KeepsLess(plan);
}

// Bytes that a block keeps if only cheap operations are recomputed: the results of attention and of
// every second matrix product (queries, values, one product of the feed-forward part, and the last
// product).
double ProductBytes(const Sizes& sizes, const TrainingPlan& plan) {
  const double size = plan.weights == Dtype::kFp32 && !plan.amp ? 4 : 2;
  return size * (sizes.output + sizes.query + sizes.value + sizes.forward + sizes.stream);
}

// Workspace and gradients of a convolution per byte of its input and output, as in the formula for
// model summaries (docs/inside/estimators.md).
constexpr double kConvolutionBytes = 3.52;

double BytesOf(const BlockKeeps& block, const TransformerConfig& config, const TrainingPlan& plan,
               const Sizes& sizes) {
  const bool fp32 = plan.weights == Dtype::kFp32 && !plan.amp;
  const double plain = fp32 ? 4 : 2;
  // RMSNorm keeps an fp32 copy of its input, and the normalised input.
  const double wide = fp32 || plan.amp ? 4 : config.rms_norm ? 3 : 2;
  const double read = plan.method == Method::kLora ? 0 : block.read;
  double bytes = wide * block.wide + plain * (block.kept + read) + (plan.amp ? 2 * block.cast : 0);
  if (plan.attention == Attention::kEager)
    bytes += MatrixBytes(config, plan) * block.matrix * sizes.sequence +
             (fp32 ? block.without_kernels : block.without_kernels_16bit);
  return bytes;
}

// Bytes of the adapters' inputs. An adapter copies its input only if the model's precision differs
// from its own. Without a copy, queries, keys and values read the same tensor, and attention
// already keeps the input of the output projection.
double AdapterBytes(const TransformerConfig& config, const TrainingPlan& plan,
                    const Adapters& adapters) {
  if (plan.method != Method::kLora) return 0;
  const double dropped = plan.lora_dropout ? 5 * adapters.inputs : 0;
  if (plan.amp || plan.lora_16bit) return dropped + 2 * adapters.inputs;
  if (plan.weights != Dtype::kFp32) return dropped + 4 * adapters.inputs;
  return dropped + 4 * std::min(adapters.inputs, config.blocks->query.inputs);
}

}  // namespace

PerToken PerTokenOf(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
                    const Adapters& adapters, const Stack& stack, bool shares_weights) {
  PerToken per;
  // Autocast runs LayerNorm in fp32, so tensors that are added to its result become fp32 too.
  const bool wide =
      plan.weights == Dtype::kFp32 || plan.fp32_residual || (plan.amp && !config.rms_norm);
  AddBlock(config, plan, sizes, adapters, stack, per);
  const double residual = (wide ? 4 : 2) * sizes.stream;
  double kept = per.kept + (KeepsStream(config, plan) ? residual : 0);  // by one block
  if (sizes.has_loss && stack.last) AddLoss(config, plan, sizes, shares_weights, per);
  if (plan.checkpointing == Checkpointing::kFull) {
    const double again = 1 / static_cast<double>(plan.checkpoint_every);
    kept = again * residual + (1 - again) * kept;
    if (shares_weights && plan.method == Method::kLora && plan.data_parallel == DataParallel::kFsdp)
      per.stays = 2 * std::max(0.0, stack.layers - 2) * sizes.hidden;
  } else if (plan.checkpointing == Checkpointing::kOperators) {
    kept = residual + ProductBytes(sizes, plan);
  }
  per.inputs = stack.layers * sizes.in_flight * kept;
  // With offloading, only the inputs of two blocks are on the GPU at any time, because they are
  // still being copied.
  if (plan.offload_activations) per.inputs *= std::min(1.0, 2 / std::max(1.0, stack.layers));
  return per;
}

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

PerToken PerTokenOfBlocks(const TransformerConfig& config, const TrainingPlan& plan,
                          const Sizes& sizes, const Adapters& adapters, bool shares_weights) {
  PerToken per;
  const double plain = plan.weights == Dtype::kFp32 && !plan.amp ? 4 : 2;
  const bool computes_again = RunsBlocksAgain(plan);
  double early_parameters = 0;
  double all_parameters = 0;
  for (const BlockKeeps& block : config.blocks->blocks) {
    const double bytes = BytesOf(block, config, plan, sizes);
    const bool again = computes_again && block.again;
    per.inputs += again ? plain * block.input : bytes;
    if (again) per.block = std::max(per.block, bytes);
    if (block.early) per.midway += bytes;
    (block.early ? early_parameters : all_parameters) += block.parameters;
    double made = plain * (kConvolutionBytes * block.widest + block.made);
    if (plan.attention == Attention::kEager)
      made = std::max(made, MatrixGradientBytes(config, plan) * block.matrix * sizes.sequence);
    per.temporaries = std::max(per.temporaries, made);
  }
  all_parameters += early_parameters;
  per.kept = per.block;
  if (!computes_again) {
    per.inputs += per.temporaries + AdapterBytes(config, plan, adapters);
    per.temporaries = 0;
    per.midway_gradients = all_parameters > 0 ? 1 - early_parameters / all_parameters : 0;
  } else {
    per.midway = 0;
  }
  if (sizes.has_loss && config.vocabulary > 0) AddLoss(config, plan, sizes, shares_weights, per);
  if (plan.offload_activations) per.inputs /= std::max(1.0, sizes.layers / 2);
  return per;
}

void AddTowers(const TransformerConfig& config, const TrainingPlan& plan, PerToken& per) {
  for (const TransformerConfig& tower : config.towers) {
    TrainingPlan own = plan;
    if (tower.positions > 0) own.sequence = tower.positions;
    own.mean_length.reset();
    const Stage whole = {.layers = static_cast<double>(tower.layers)};
    const Sizes sizes = SizesOf(tower, own, whole);
    const Adapters adapters = plan.method == Method::kLora && !tower.blocks
                                  ? AdaptersOf(sizes, plan, tower.gated)
                                  : Adapters{};
    const Stack stack = {.layers = sizes.layers, .keys = sizes.sequence};
    const PerToken other = tower.blocks ? PerTokenOfBlocks(tower, own, sizes, adapters, false)
                                        : PerTokenOf(tower, own, sizes, adapters, stack, false);
    const double share = static_cast<double>(own.sequence) / static_cast<double>(plan.sequence);
    per.inputs += share * other.inputs;
    if (share * (other.block + other.temporaries) > per.block + per.temporaries) {
      per.block = share * other.block;
      per.temporaries = share * other.temporaries;
    }
  }
}

}  // namespace carma::estimate

// Memory that grows with the number of tokens.
#include "estimate/transformer/tokens.h"

#include <algorithm>

namespace carma::estimate {
namespace {

// Scores over the vocabulary: log-softmax, its gradient and that of the scores, in fp32 if autocast
// or the code casts them, as code of causal models does. A custom loop may also hold them (Trainer
// does not), which is not known.
void AddLoss(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
             bool shares_weights, PerToken& per) {
  const bool casts = config.rms_norm || plan.weights == Dtype::kFp32;
  const Loss loss = config.classifies ? Loss::kNone : plan.loss;
  const double copy = casts || plan.amp ? 4 : 2;
  double bytes = casts ? 12 : plan.amp ? 16 : 8;
  if (plan.fp32_rest) bytes = 16;  // the head is fp32, and so are its scores
  switch (loss) {
    case Loss::kStock:
      // The caller holds the scores until the end of the step; with FSDP it does not.
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

// Bytes per element of the attention matrix if no fused kernel avoids it: softmax's result (fp32
// under autocast and in the code of RMSNorm families), its 16-bit copy, a dropout's mask and
// result.
double MatrixBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool fp32 = plan.weights == Dtype::kFp32;
  if (plan.amp) return 6 + (config.drops_out ? 5 : 0);
  if (fp32) return 4 + (config.drops_out ? 5 : 0);
  return (config.rms_norm ? 6 : 2) + (config.drops_out ? 3 : 0);
}

// For PEFT's frozen weights without checkpointing, tensors that only their gradients would need are
// not kept. Adapters of other libraries (in 16 bits) were compared without this rule.
bool KeepsLess(const TrainingPlan& plan) {
  return plan.method == Method::kLora && !plan.lora_16bit && !RunsBlocksAgain(plan);
}

// The bytes of both norms, at two bytes an element. RMSNorm in the code of Transformers keeps its
// input in fp32, the quotient if its weight is trained, and the result; LayerNorm keeps its input
// and its result.
double NormBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool fp32 = plan.weights == Dtype::kFp32;
  if (!config.rms_norm) return plan.amp ? 12 : 8;
  if (plan.fused_layers) return 8;
  if (fp32 && plan.amp) return 26;  // each matrix casts what it reads anew
  if (fp32) return 12;
  return KeepsLess(plan) ? 8 : 16;
}

// The bytes of the feed-forward part, per element of its inner width. A frozen matrix needs no
// input.
double ForwardBytes(const TransformerConfig& config, const TrainingPlan& plan) {
  const bool frozen = plan.method == Method::kLora;
  double bytes = config.gated ? (frozen ? 6 : 8) : (frozen ? 2 : 4);
  if (config.written_out_gelu) bytes += plan.amp ? 12 : 6;
  return bytes + (frozen && plan.keeps_frozen_inputs ? 2 : 0);
}

// Adds what one block keeps: inputs of norms, attention, the feed-forward part and adapters.
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
  // The copy after dropout is kept instead of the copy.
  per.kept = per.block;
  if (KeepsLess(plan) && plan.lora_dropout) per.kept -= copied * adapters.inputs;
  per.temporaries = grown * (config.gated ? 6 : 4) * sizes.forward;
}

// The residual stream itself is kept if the norms read a copy of it.
bool KeepsStream(const TransformerConfig& config, const TrainingPlan& plan) {
  return config.rms_norm && plan.weights != Dtype::kFp32 && !KeepsLess(plan);
}

// What stays of a block if only its cheap operations are computed again: the results of attention
// and of every second matrix product: queries, values, one of the feed-forward part and the last.
double ProductBytes(const Sizes& sizes, const TrainingPlan& plan) {
  const double size = plan.weights == Dtype::kFp32 && !plan.amp ? 4 : 2;
  return size * (sizes.output + sizes.query + sizes.value + sizes.forward + sizes.stream);
}

}  // namespace

PerToken PerTokenOf(const TransformerConfig& config, const TrainingPlan& plan, const Sizes& sizes,
                    const Adapters& adapters, const Stack& stack, bool shares_weights) {
  PerToken per;
  // Autocast runs LayerNorm in fp32, and tensors that are added to its result become fp32 too.
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

}  // namespace carma::estimate

// Closed-form estimate of the memory needed to train a transformer (docs/inside/estimators.md,
// "Transformers").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/words.h"
#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// The moments of a step at which memory can reach its peak.
enum class TrainingPhase {
  kStep,   // the optimizer's step: no activations, all gradients and states
  kLoss,   // the loss: inputs of all blocks, logits over the vocabulary
  kLayer,  // the last block's backward pass: inputs of all blocks, and what one block keeps
  kEnd,    // the first block's backward pass: one block, and all gradients
  kSave,   // gathering the weights of all ranks to save them
  kEncode  // an autoencoder turns images into latents, before the first block
};
inline constexpr std::pair<TrainingPhase, std::string_view> kTrainingPhaseWords[] = {
    {TrainingPhase::kStep, "step"},   {TrainingPhase::kLoss, "loss"},
    {TrainingPhase::kLayer, "layer"}, {TrainingPhase::kEnd, "end"},
    {TrainingPhase::kSave, "save"},   {TrainingPhase::kEncode, "encode"}};

// The memory on one GPU at one moment, in MiB.
struct MemoryParts {
  double weights = 0;  // including adapters and permanent copies
  double gradients = 0;
  double optimizer = 0;  // states, including fp32 masters
  double logits = 0;     // tensors that the loss makes from the logits
  double activations = 0;
  double working = 0;  // unsharded copies, step temporaries, buckets
  double beside = 0;   // a reference model, an engine that generates answers
  double Sum() const;  // "allocated" in PyTorch's terms
};

// A prediction, and a bound that covers the requested share of runs.
struct MemoryBound {
  std::int64_t point_mib = 0;
  std::int64_t bound_mib = 0;  // at least the point
};

// The estimate for the rank that needs the most memory.
struct TransformerEstimate {
  TrainingPhase phase = TrainingPhase::kStep;  // the moment of peak memory
  MemoryParts parts;                           // at that moment
  double fragmentation_mib = 0;                // reserved by PyTorch's allocator but not allocated
  double context_mib = 0;                      // CUDA context and libraries
  MemoryBound needed;                          // allocated: the sum of the parts
  MemoryBound reserved;                        // allocated plus fragmentation
  MemoryBound shown;      // reserved plus context, as shown by nvidia-smi and as promised
  double parameters = 0;  // model parameters, without adapters
  double trained_parameters = 0;
  double coverage = 0;                // coverage of the bounds
  std::vector<std::string> warnings;  // one sentence each
};

// coverage: 0.5..0.999. Pure. Returns kInvalid for an impossible plan (no tokens, more stages than
// layers, full training of quantised weights).
Result<TransformerEstimate> EstimateTransformer(const TransformerConfig& config,
                                                const TrainingPlan& plan, double coverage);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::TrainingPhase> base::kWordsOf<estimate::TrainingPhase> =
    estimate::kTrainingPhaseWords;
}  // namespace carma

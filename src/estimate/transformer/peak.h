// The memory of a transformer's training in closed form: docs/inside/estimators.md, "Transformers".
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

// The moments of a step at which memory can be highest.
enum class TrainingPhase {
  kStep,   // the optimizer's step: no activations, all gradients and states
  kLoss,   // the loss: inputs of all blocks, scores over the vocabulary
  kLayer,  // the last block again: inputs of all blocks, everything one block keeps
  kEnd,    // the first block again: one block, and by now all gradients
  kSave,   // gathering the weights of all ranks to save them
  kEncode  // before the first block: an autoencoder turns images into latents
};
inline constexpr std::pair<TrainingPhase, std::string_view> kTrainingPhaseWords[] = {
    {TrainingPhase::kStep, "step"},   {TrainingPhase::kLoss, "loss"},
    {TrainingPhase::kLayer, "layer"}, {TrainingPhase::kEnd, "end"},
    {TrainingPhase::kSave, "save"},   {TrainingPhase::kEncode, "encode"}};

// One GPU, in MiB, at one moment.
struct MemoryParts {
  double weights = 0;  // adapters and copies that stay included
  double gradients = 0;
  double optimizer = 0;  // states, fp32 masters included
  double logits = 0;     // tensors that the loss makes from the scores
  double activations = 0;
  double working = 0;  // unsharded copies, temporaries of the step, buckets
  double beside = 0;   // a reference model, an engine that writes answers
  double Sum() const;  // what PyTorch calls allocated
};

// A prediction, and a bound that covers the requested share of runs.
struct MemoryBound {
  std::int64_t point_mib = 0;
  std::int64_t bound_mib = 0;  // at least the point
};

// The estimate for the rank that needs the most memory.
struct TransformerEstimate {
  TrainingPhase phase = TrainingPhase::kStep;  // in which memory is highest
  MemoryParts parts;                           // at that moment
  double fragmentation_mib = 0;  // reserved by PyTorch's allocator beyond what is allocated
  double context_mib = 0;        // CUDA context and libraries
  MemoryBound needed;            // allocated: the sum of the parts
  MemoryBound reserved;          // with the fragmentation
  MemoryBound shown;             // with the context: what nvidia-smi shows, and what is promised
  double parameters = 0;         // of the whole model, without adapters
  double trained_parameters = 0;
  double coverage = 0;                // of the bounds
  std::vector<std::string> warnings;  // one sentence each
};

// coverage: 0.5..0.999. Pure. Errors: kInvalid for an impossible plan (no tokens, more stages than
// layers, quantised weights trained in full).
Result<TransformerEstimate> EstimateTransformer(const TransformerConfig& config,
                                                const TrainingPlan& plan, double coverage);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::TrainingPhase> base::kWordsOf<estimate::TrainingPhase> =
    estimate::kTrainingPhaseWords;
}  // namespace carma

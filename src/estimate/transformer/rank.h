// Computes which part of a transformer one rank holds during training, and how much GPU memory this
// part occupies between steps. peak.cc adds the memory that grows with the tokens (tokens.h).
#pragma once

#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

bool RunsBlocksAgain(const TrainingPlan& plan);
bool IsZero(DataParallel kind);
// Returns true for a pipeline of several processes. With one micro-batch in flight, a single
// process passes it from GPU to GPU, without NCCL.
bool Pipelines(const TrainingPlan& plan);
// Number of GPUs that sharded memory is divided among: the data-parallel GPUs times the GPUs that
// share a sample. torchtitan's FSDP mesh and the distributed optimizers of Megatron and DeepSpeed
// divide it the same way.
double Shards(const TrainingPlan& plan);

// A pipeline stage on one tensor-parallel rank.
struct Stage {
  double layers = 0;
  bool first = true;     // holds the embedding
  bool last = true;      // holds the head and the loss
  double in_flight = 1;  // micro-batches whose block inputs it keeps
};

// The part of the model on this rank.
struct Sizes {
  double layers = 0;
  double stream = 0;  // width of the residual stream on this rank
  double hidden = 0, query = 0, key = 0, value = 0, output = 0, forward = 0, vocabulary = 0;
  double heads = 0;
  double block = 0;      // parameters of one block's matrices
  double matrices = 0;   // parameters of all blocks' matrices, including `elsewhere` of each
  double elsewhere = 0;  // part of `block` on other GPUs: experts
  double rest = 0;       // embedding, head, norms
  double tables = 0;     // parameters of the embedding and the head
  double tokens = 0;     // tokens per micro-batch
  double sequence = 0;
  double in_flight = 1;
  bool has_loss = true;
};

Sizes SizesOf(const TransformerConfig& config, const TrainingPlan& plan, const Stage& stage);

// The matrices that LoRA adds.
struct Adapters {
  double parameters = 0;  // adapter parameters of all blocks
  double inputs = 0;      // input widths of one block's adapted matrices
};

Adapters AdaptersOf(const Sizes& sizes, const TrainingPlan& plan, bool gated);
// The adapters of a model with a list of blocks, such as a U-Net. The blocks differ, so `inputs` is
// the sum over all of them.
Adapters AdaptersOf(const BlockList& list, const TrainingPlan& plan);

// Memory on the GPU that does not depend on the number of tokens, in bytes.
struct Static {
  double weights = 0;
  double copies = 0;  // 16-bit copies of weights, until a block's backward pass
  double gradients = 0;
  double waiting = 0;  // accumulated gradients during the next pass
  double optimizer = 0;
  double step = 0;       // temporaries of the optimizer's step
  double buckets = 0;    // permanent buckets for collective operations
  double root = 0;       // embedding and head, unsharded while blocks run
  double one_block = 0;  // an unsharded block
  double whole = 0;      // all weights unsharded, for saving
  double beside = 0;     // a frozen reference model, an engine that generates answers
  double trained = 0;    // number of trained parameters
  bool shares_weights = false;
};

Static StaticOf(const Sizes& sizes, const Adapters& adapters, const TrainingPlan& plan);

}  // namespace carma::estimate

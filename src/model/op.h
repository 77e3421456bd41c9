// What a row of a summary does, told from its class name: the one table of layer types.
#pragma once

#include <string_view>

#include "model/layers.h"

namespace carma::model {

enum class Op {
  kConv,       // convolutions of any rank, transposed ones too
  kLinear,     // matrix products with a weight; the Conv1D of GPT-2 is one
  kEmbedding,  // table look-ups
  kBatchNorm,
  kLayerNorm,  // statistics per sample: LayerNorm, GroupNorm, RMSNorm, InstanceNorm
  kDropout,    // DropPath and its kind too
  kActivation,
  kPool,
  kAttention,
  kRecurrent,  // LSTM, GRU, RNN
  kReshape,    // neither weights nor arithmetic to speak of: Identity, Flatten, Upsample
  kOther,      // a name that no rule knows
};

// By the class name alone: the names of PyTorch (Keras names are translated when a summary is
// read), and the variants that libraries make of them. A block that carries an operation in its
// name ("ConvNormAct") gets that operation too: ask IsOperation first.
Op OpOf(std::string_view type);

// Whether the row stands for arithmetic of its own. A leaf does, a container does not. A block does
// if it is a norm (with an activation inside) or an attention (that keeps its projections itself).
// Where the summary does not tell (kUnknown): types that never contain others, and whatever carries
// weights; a "ConvNormAct" with 0 parameters is a container.
bool IsOperation(const Layer& layer);

}  // namespace carma::model

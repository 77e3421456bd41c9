// The operation of a row of a summary, by its class name: the table of layer types.
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
  kDropout,    // also DropPath and the like
  kActivation,
  kPool,
  kAttention,
  kRecurrent,  // LSTM, GRU, RNN
  kReshape,    // no weights and hardly any arithmetic: Identity, Flatten, Upsample
  kOther,      // an unknown name
};

// Judged by class name only: PyTorch's names (Keras names are translated when a summary is read)
// and variants in libraries. A block with an operation in its name ("ConvNormAct") gets that
// operation too: call IsOperation first.
Op OpOf(std::string_view type);

// Whether the row is an operation itself. Leaves are operations, containers are not. A block is one
// if it is a norm (with an activation inside) or an attention (with its own projections). Rows of
// unknown kind (kUnknown) are operations if their type never contains others or if they have
// weights; a "ConvNormAct" with 0 parameters is a container.
bool IsOperation(const Layer& layer);

}  // namespace carma::model

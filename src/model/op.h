// The table of layer types. It maps the class name of a summary row to the row's operation.
#pragma once

#include <string_view>

#include "model/layers.h"

namespace carma::model {

enum class Op {
  kConv,       // convolutions of any rank, also transposed
  kLinear,     // matrix products with a weight, including GPT-2's Conv1D
  kEmbedding,  // table look-ups
  kBatchNorm,
  kLayerNorm,  // statistics per sample: LayerNorm, GroupNorm, RMSNorm, InstanceNorm
  kDropout,    // including DropPath and similar layers
  kActivation,
  kPool,
  kAttention,
  kRecurrent,  // LSTM, GRU, RNN
  kReshape,    // no weights and hardly any arithmetic: Identity, Flatten, Upsample
  kOther,      // an unknown name
};

// Returns the operation for a class name. Knows PyTorch's own names and the variants of other
// libraries; Keras names are translated when a summary is read. A block named after an operation
// ("ConvNormAct") maps to that operation too, so call IsOperation first.
Op OpOf(std::string_view type);

// True if the row itself is an operation. Leaves are operations, and containers are not. A block is
// an operation if it is a norm with an activation inside, or an attention module with its own
// projections. A row of unknown kind (kUnknown) is an operation if its type never contains other
// modules or if it has weights. A "ConvNormAct" with 0 parameters is a container.
bool IsOperation(const Layer& layer);

}  // namespace carma::model

// The table of layer types: finds the operation of a summary's row by class name.
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
  kDropout,    // also DropPath and the like
  kActivation,
  kPool,
  kAttention,
  kRecurrent,  // LSTM, GRU, RNN
  kReshape,    // no weights, hardly any arithmetic: Identity, Flatten, Upsample
  kOther,      // an unknown name
};

// Decides by class name only: PyTorch's names (Keras names are translated when a summary is read)
// and variants in libraries. A block with an operation in its name ("ConvNormAct") also gets that
// operation, so call IsOperation first.
Op OpOf(std::string_view type);

// Whether the row itself is an operation. Leaves are operations, containers are not. A block is an
// operation if it is a norm (with an activation inside) or an attention (with its own projections).
// Rows of unknown kind (kUnknown) are operations if their type never contains others or if they
// have weights; a "ConvNormAct" with 0 parameters is a container.
bool IsOperation(const Layer& layer);

}  // namespace carma::model

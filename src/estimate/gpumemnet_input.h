// Computes the inputs of GPUMemNet's networks. Weights files store the names of these inputs, so
// the program can check that it computes the same inputs that the network was trained on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/layers.h"
#include "model/op.h"

namespace carma::estimate {

// The aggregates of a model. Counts and sizes are stored as ln(1 + x), because they span nine
// decades. The first twelve aggregates come from the dissertation (section 5.4.4). The next three
// describe the input's size and the wide layers of the whole model, which the dissertation also
// names as causes of high memory use (5.4.1). The last two are the shares of dropout and batch norm
// layers.
inline constexpr std::array<std::string_view, 17> kAggregateNames{
    "ln linear",  // number of layers of each kind …
    "ln conv",
    "ln batch_norm",
    "ln layer_norm",
    "ln dropout",
    "ln depth",  // … and number of all layers
    "ln batch",  // samples per GPU and step
    "ln params",
    "ln activations",  // elements of all outputs per sample
    "ln activations*batch",
    "cos function",  // activation function as an angle: functions that keep their input for
    "sin function",  // the backward pass lie opposite functions that keep their output
    "ln largest_output*batch",
    "ln weighted_outputs*batch",  // outputs of linear layers and convolutions
    "ln largest_conv*batch",      // input and output of the largest convolution
    "dropout/depth",
    "batch_norm/depth",
};
using Aggregates = std::array<float, kAggregateNames.size()>;

// The layer types in the sequence. Layers such as Identity and Flatten are omitted.
inline constexpr std::array<model::Op, 10> kLayerTypes{
    model::Op::kConv,      model::Op::kLinear,  model::Op::kEmbedding,  model::Op::kBatchNorm,
    model::Op::kLayerNorm, model::Op::kDropout, model::Op::kActivation, model::Op::kPool,
    model::Op::kAttention, model::Op::kOther,
};
inline constexpr std::string_view kLayerTypeNames =
    "conv linear embedding batch_norm layer_norm dropout activation pool attention other";

inline constexpr std::array<std::string_view, 3> kLayerSizeNames{"ln activations", "ln params",
                                                                 "ln activations*batch"};

// A group of layers of the same type and size. ln_repeats is the logarithm of the number of layers
// in the group. The encoder has no positional encoding, so one token per group gives the same
// result in a fraction of the time (gpumemnet_network.h).
struct LayerToken {
  int type = 0;  // index in kLayerTypes
  std::array<float, kLayerSizeNames.size()> sizes{};
  float ln_repeats = 0;
  friend bool operator==(const LayerToken&, const LayerToken&) = default;
};
// If a model has more groups than this, layers of similar size are merged.
inline constexpr std::size_t kMaxTokens = 128;

struct NetworkInput {
  Aggregates aggregates{};
  std::vector<LayerToken> layers;  // sorted by type and size, at most kMaxTokens
};

// Pure. batch: at least 1.
NetworkInput DescribeForNetworks(const model::LayerList& list, std::int64_t batch);

}  // namespace carma::estimate

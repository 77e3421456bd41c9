// The inputs of GPUMemNet's networks. Their names are part of the weights files, because a network
// and the program must mean the same by each number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/layers.h"
#include "model/op.h"

namespace carma::estimate {

// ln(1 + x) of counts and sizes, which span nine decades. The first twelve are those of the
// dissertation (section 5.4.4); it also names the input's size and wide layers as causes (5.4.1);
// the last five describe these for the whole model.
inline constexpr std::array<std::string_view, 17> kAggregateNames{
    "ln linear",  // layers of each kind …
    "ln conv",
    "ln batch_norm",
    "ln layer_norm",
    "ln dropout",
    "ln depth",  // … and of any
    "ln batch",  // samples per GPU and step
    "ln params",
    "ln activations",  // elements of all outputs, per sample
    "ln activations*batch",
    "cos function",  // activation function as an angle: those that keep their input for
    "sin function",  // the backward pass lie opposite to those that keep their output
    "ln largest_output*batch",
    "ln weighted_outputs*batch",  // of linear layers and convolutions only
    "ln largest_conv*batch",      // input and output of the largest convolution
    "dropout/depth",
    "batch_norm/depth",
};
using Aggregates = std::array<float, kAggregateNames.size()>;

// Kinds of layers that the sequence distinguishes; Identity, Flatten and the like are left out.
inline constexpr std::array<model::Op, 10> kLayerTypes{
    model::Op::kConv,      model::Op::kLinear,  model::Op::kEmbedding,  model::Op::kBatchNorm,
    model::Op::kLayerNorm, model::Op::kDropout, model::Op::kActivation, model::Op::kPool,
    model::Op::kAttention, model::Op::kOther,
};
inline constexpr std::string_view kLayerTypeNames =
    "conv linear embedding batch_norm layer_norm dropout activation pool attention other";

// Sizes of one layer: "ln activations", "ln params", "ln activations*batch".
inline constexpr std::array<std::string_view, 3> kLayerSizeNames{"ln activations", "ln params",
                                                                 "ln activations*batch"};

// Layers of one type and size. The encoder uses no positions, so equal layers can be one token with
// their count: the result is the same in a fraction of the time (gpumemnet_network.h).
struct LayerToken {
  int type = 0;  // index in kLayerTypes
  std::array<float, kLayerSizeNames.size()> sizes{};
  float ln_repeats = 0;
  friend bool operator==(const LayerToken&, const LayerToken&) = default;
};
// In models with more different layers, layers of similar size are merged.
inline constexpr std::size_t kMaxTokens = 128;

struct NetworkInput {
  Aggregates aggregates{};
  std::vector<LayerToken> layers;  // in order of type and size, at most kMaxTokens
};

// Pure. batch at least 1.
NetworkInput DescribeForNetworks(const model::LayerList& list, std::int64_t batch);

}  // namespace carma::estimate

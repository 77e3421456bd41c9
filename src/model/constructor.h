// Reads the text of a PyTorch module's constructor: "Conv2d(3, 64, kernel_size=(7, 7), …)".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/layers.h"

namespace carma::model {

// Fills in_features, out_features, kernel, dropout and inplace of `layer` from the text between the
// parentheses, depending on layer.type. Returns the module's own parameters: 0 for modules without
// weights, empty if the type is unknown or the text does not determine them.
std::optional<std::int64_t> ReadConstructor(std::string_view arguments, Layer& layer);

// Own parameters of an nn.MultiheadAttention with the output projection `projection`: its query,
// key and value weights, which are not printed, have the same width.
std::int64_t AttentionParams(const Layer& projection);

}  // namespace carma::model

// Depths of well-known networks by name.
#pragma once

#include <optional>
#include <string_view>

namespace carma::trace {

// Layers with weights of well-known convolutional networks, whatever their case and separators
// ("resnet50", "EfficientNet-B0"). Empty: not one of them.
std::optional<int> LayersOf(std::string_view model);

}  // namespace carma::trace

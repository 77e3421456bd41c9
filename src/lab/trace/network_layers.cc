#include "lab/trace/network_layers.h"

#include <array>
#include <cctype>
#include <string>

namespace carma::trace {
namespace {

struct Network {
  std::string_view name;  // letters and digits only
  int layers;
};
// Number of convolutions and linear layers in the usual implementations, projections included.
constexpr std::array kNetworks{
    Network{"alexnet", 8},       Network{"vgg11", 11},
    Network{"vgg13", 13},        Network{"vgg16", 16},
    Network{"vgg19", 19},        Network{"resnet18", 21},
    Network{"resnet34", 37},     Network{"resnet50", 54},
    Network{"resnet101", 105},   Network{"resnet152", 156},
    Network{"inception", 95},    Network{"inceptionv3", 95},
    Network{"xception", 75},     Network{"efficientnetb0", 82},
    Network{"mobilenetv2", 53},  Network{"mobilenetv3large", 64},
    Network{"densenet121", 121},
};

}  // namespace

std::optional<int> LayersOf(std::string_view model) {
  std::string name;
  for (const char c : model) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) continue;
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const Network& network : kNetworks) {
    if (network.name == name) return network.layers;
  }
  return std::nullopt;
}

}  // namespace carma::trace

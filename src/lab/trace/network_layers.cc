#include "lab/trace/network_layers.h"

#include <cctype>
#include <string>

namespace carma::trace {
namespace {

struct Network {
  std::string_view name;  // letters and digits only
  int layers;
};
// Number of convolutions and linear layers in the usual implementations, projections included.
constexpr Network kNetworks[] = {
    {"alexnet", 8},       {"vgg11", 11},          {"vgg13", 13},       {"vgg16", 16},
    {"vgg19", 19},        {"resnet18", 21},       {"resnet34", 37},    {"resnet50", 54},
    {"resnet101", 105},   {"resnet152", 156},     {"inception", 95},   {"inceptionv3", 95},
    {"xception", 75},     {"efficientnetb0", 82}, {"mobilenetv2", 53}, {"mobilenetv3large", 64},
    {"densenet121", 121},
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

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/result.h"
#include "entries.h"
#include "estimate/gpumemnet_network.h"
#include "estimate/safetensors.h"
#include "estimate/safetensors_fixture.h"

namespace carma::fuzz {

void FuzzSafetensors(std::string_view bytes) {
  const auto file = estimate::ParseTensors(bytes, "fuzz.safetensors");
  if (!file) {
    CARMA_CHECK(file.error().message.find('\n') == std::string::npos,
                "an error message is one line");
    return;
  }
  const auto again = estimate::ParseTensors(estimate::DumpTensors(*file), "fuzz.safetensors");
  CARMA_CHECK(again && *again == *file, "written tensors are read back unchanged");
  const auto network = estimate::Network::Load(*file, "fuzz.safetensors");
  if (!network) return;
  const std::size_t classes = network->class_points().size();
  for (const float size : {0.F, 1.F, 20.F}) {
    estimate::NetworkInput input;
    input.aggregates.fill(size);
    input.layers.push_back({.type = 1, .sizes = {size, size, size}, .ln_repeats = 1});
    const std::vector<double> answer = network->Probabilities(input);
    if (answer.empty()) continue;  // overflow
    CARMA_CHECK(answer.size() == classes, "the network returns one number per class");
    CARMA_CHECK(std::abs(std::accumulate(answer.begin(), answer.end(), 0.0) - 1) < 1e-3,
                "probabilities sum to 1");
  }
}

}  // namespace carma::fuzz

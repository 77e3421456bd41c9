#include "estimate/wave_config.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"

namespace carma::estimate {

void ReadWaves(base::JsonReader& in, bool trained, TransformerConfig& config) {
  std::vector<double> widths(7, 512);
  std::vector<double> strides = {5, 2, 2, 2, 2, 2, 2};
  std::vector<double> kernels = {10, 3, 3, 3, 3, 2, 2};
  for (const auto& [key, target] :
       {std::pair("conv_dim", &widths), std::pair("conv_stride", &strides),
        std::pair("conv_kernel", &kernels)}) {
    const base::Json* list = in.Raw(key);
    if (list == nullptr || !list->is_array()) continue;
    target->clear();
    for (const base::Json& each : *list) {
      if (!each.is_number_integer() || each.get<double>() < 1 || each.get<double>() > 100'000 ||
          target->size() == 64)
        return in.Complain(key, "numbers from 1 to 100000");
      target->push_back(each.get<double>());
    }
  }
  if (widths.size() != strides.size() || widths.size() != kernels.size() || widths.empty())
    return in.Complain("conv_dim", "as many numbers as in conv_stride and conv_kernel");
  // The last layer has one position per token. Going backwards, the stride of each layer multiplies
  // the number of positions.
  BlockKeeps all = {.again = false};
  double positions = 1;
  for (std::size_t i = widths.size(); i-- > 0;) {
    const double before = i == 0 ? 1 : widths[i - 1];
    all.parameters += kernels[i] * before * widths[i];
    all.kept += positions * widths[i] * (i == 0 ? 3 : 2);  // the first layer has a norm
    all.widest = std::max(all.widest, positions * widths[i]);
    positions *= strides[i];
  }
  const auto width = static_cast<double>(config.hidden);
  constexpr double kPositionKernel = 128;
  constexpr double kGroups = 16;
  config.other_parameters = widths.back() * width + kPositionKernel * width * width / kGroups;
  config.usual_length = 1000;  // 20 seconds
  config.remarks.emplace_back("one token is 20 ms of audio, so --seq-len 500 means 10 seconds");
  if (!trained) {
    config.other_parameters += all.parameters;
    config.remarks.emplace_back("the audio convolutions are assumed to be frozen");
    return;
  }
  TransformerConfig waves;
  waves.layers = 1;
  waves.classifies = true;
  waves.blocks = BlockList{.blocks = {all}};
  config.towers.push_back(std::move(waves));
}

}  // namespace carma::estimate

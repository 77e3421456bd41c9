// Relative speeds of one server's GPUs. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/gpu.h"

namespace carma::core {

// The speed of each GPU relative to the fastest, in (0, 1]. If the speed of any GPU is unknown, all
// GPUs count as equally fast.
std::vector<double> PacesOf(std::span<const GpuInfo> gpus);

// The training speed (GpuInfo::speed) configured for a GPU type. NamesType decides which models
// belong to the type.
struct TypeSpeed {
  std::string type;
  double speed = 1;
  friend bool operator==(const TypeSpeed&, const TypeSpeed&) = default;
};
// Parses "a6000=0.5". Returns kInvalid for any other form or a speed that is out of range.
Result<TypeSpeed> ParseTypeSpeed(std::string_view text);
std::string TextOf(const TypeSpeed& speed);
// The speed in the first entry whose type names this model, or 0 if there is no such entry.
double SpeedOf(std::span<const TypeSpeed> known, std::string_view model);

}  // namespace carma::core

// Relative speeds of the GPUs of a server. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/gpu.h"

namespace carma::core {

// The speed of each GPU relative to the fastest, in (0, 1]. If one is unknown, all count as equally
// fast.
std::vector<double> PacesOf(std::span<const GpuInfo> gpus);

// A GPU type in the sense of NamesType, and its GpuInfo::speed.
struct TypeSpeed {
  std::string type;
  double speed = 1;
  friend bool operator==(const TypeSpeed&, const TypeSpeed&) = default;
};
// "a6000=0.5". Errors: kInvalid.
Result<TypeSpeed> ParseTypeSpeed(std::string_view text);
std::string TextOf(const TypeSpeed& speed);
// Speed of the first entry whose type names this model; 0: none.
double SpeedOf(std::span<const TypeSpeed> known, std::string_view model);

}  // namespace carma::core

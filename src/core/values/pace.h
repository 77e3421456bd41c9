// How fast the GPUs of a server are against each other. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/gpu.h"

namespace carma::core {

// Of each, how fast a task goes there against the fastest of them, in (0, 1]. Where the speed of
// one is not known all are taken for equally fast.
std::vector<double> PacesOf(std::span<const GpuInfo> gpus);

// A type of GPU, as people name it (NamesType), and its GpuInfo::speed.
struct TypeSpeed {
  std::string type;
  double speed = 1;
  friend bool operator==(const TypeSpeed&, const TypeSpeed&) = default;
};
// "a6000=0.5". Errors: kInvalid.
base::Result<TypeSpeed> ParseTypeSpeed(std::string_view text);
std::string TextOf(const TypeSpeed& speed);
// The first that names the model; 0: none does.
double SpeedOf(std::span<const TypeSpeed> known, std::string_view model);

}  // namespace carma::core

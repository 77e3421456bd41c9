#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace carma::estimate {

// Rounds a computed size to whole MiB. Out-of-range sizes give a meaningless result, but never
// undefined behaviour.
inline std::int64_t RoundMib(double mib) {
  constexpr double kMost = 1e15;
  return std::llround(std::clamp(mib, 0.0, kMost));
}

}  // namespace carma::estimate

// From a computed size to whole MiB.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace carma::estimate {

// Nearest whole number; a summary of absurd sizes gives an absurd one, never an undefined one.
inline std::int64_t RoundMib(double mib) {
  constexpr double kMost = 1e15;
  return std::llround(std::clamp(mib, 0.0, kMost));
}

}  // namespace carma::estimate

// Rounds a computed size to whole MiB.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace carma::estimate {

// The nearest whole number. Absurd sizes give an absurd result, but never undefined behaviour.
inline std::int64_t RoundMib(double mib) {
  constexpr double kMost = 1e15;
  return std::llround(std::clamp(mib, 0.0, kMost));
}

}  // namespace carma::estimate

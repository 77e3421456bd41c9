// Factors by which predictions are multiplied to cover a given share of tasks.
#pragma once

#include <array>
#include <cstddef>

namespace carma::estimate {

inline constexpr std::array kCoverages{0.5, 0.8, 0.9, 0.95, 0.98, 0.999};
using CoverageFactors = std::array<double, kCoverages.size()>;  // one per entry of kCoverages

// Interpolates linearly between the shares in kCoverages. Outside their range, the nearest factor
// is used.
inline double FactorAt(const CoverageFactors& factors, double coverage) {
  if (coverage <= kCoverages.front()) return factors.front();
  for (std::size_t i = 1; i < kCoverages.size(); ++i) {
    if (coverage > kCoverages[i]) continue;
    const double share = (coverage - kCoverages[i - 1]) / (kCoverages[i] - kCoverages[i - 1]);
    return factors[i - 1] + share * (factors[i] - factors[i - 1]);
  }
  return factors.back();
}

}  // namespace carma::estimate

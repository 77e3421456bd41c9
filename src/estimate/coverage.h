// Factors that predictions are multiplied by to cover given shares of tasks.
#pragma once

#include <array>

namespace carma::estimate {

inline constexpr std::array kCoverages{0.5, 0.8, 0.9, 0.95, 0.98, 0.999};
using CoverageFactors = std::array<double, kCoverages.size()>;  // one per entry of kCoverages

// Interpolates linearly between the shares; outside their range the nearest factor is used.
double FactorAt(const CoverageFactors& factors, double coverage);

}  // namespace carma::estimate

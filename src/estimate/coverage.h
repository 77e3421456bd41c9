// Factors by which predictions are multiplied to cover given shares of tasks.
#pragma once

#include <array>

namespace carma::estimate {

inline constexpr std::array kCoverages{0.5, 0.8, 0.9, 0.95, 0.98, 0.999};
using CoverageFactors = std::array<double, kCoverages.size()>;  // quantiles, of each of them

// The factor is linear between the shares; outside them it is the nearest value.
double FactorAt(const CoverageFactors& factors, double coverage);

}  // namespace carma::estimate

#include "estimate/coverage.h"

namespace carma::estimate {

double FactorAt(const CoverageFactors& factors, double coverage) {
  if (coverage <= kCoverages.front()) return factors.front();
  for (std::size_t i = 1; i < kCoverages.size(); ++i) {
    if (coverage > kCoverages[i]) continue;
    const double share = (coverage - kCoverages[i - 1]) / (kCoverages[i] - kCoverages[i - 1]);
    return factors[i - 1] + share * (factors[i] - factors[i - 1]);
  }
  return factors.back();
}

}  // namespace carma::estimate

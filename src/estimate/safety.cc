#include "estimate/safety.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace carma::estimate {
namespace {

constexpr std::array kCoverages{0.5, 0.8, 0.9, 0.95, 0.98, 0.999};
using Factors = std::array<double, kCoverages.size()>;

constexpr Factors kExactBytes{1.00, 1.04, 1.07, 1.11, 1.57, 2.5};
constexpr Factors kShapes{1.00, 1.07, 1.15, 1.28, 1.69, 2.5};
constexpr Factors kText{1.00, 1.08, 1.21, 1.42, 1.80, 2.5};
constexpr Factors kPartial{1.00, 1.3, 1.5, 1.8, 2.2, 3.0};

const Factors& FactorsOf(Evidence evidence) {
  switch (evidence) {
    case Evidence::kExactBytes:
      return kExactBytes;
    case Evidence::kShapes:
      return kShapes;
    case Evidence::kText:
      return kText;
    case Evidence::kPartial:
      break;
  }
  return kPartial;
}

}  // namespace

double ShippedFactor(Evidence evidence, double coverage) {
  const Factors& factors = FactorsOf(evidence);
  if (coverage <= kCoverages.front()) return factors.front();
  for (std::size_t i = 1; i < kCoverages.size(); ++i) {
    if (coverage > kCoverages[i]) continue;
    const double share = (coverage - kCoverages[i - 1]) / (kCoverages[i] - kCoverages[i - 1]);
    return factors[i - 1] + share * (factors[i] - factors[i - 1]);
  }
  return factors.back();
}

}  // namespace carma::estimate

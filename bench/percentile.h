// Percentiles of measured times.
#pragma once

#include <algorithm>
#include <vector>

namespace carma::bench {

// share: 0..1; values: at least one, in any order.
inline double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace carma::bench

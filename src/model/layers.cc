#include "model/layers.h"

#include <algorithm>

namespace carma::model {

bool Shape::ScalesWithBatch() const {
  const auto all = dimensions();
  return std::ranges::any_of(all, [](std::int64_t d) { return d < 0; });
}

std::int64_t Shape::Elements() const {
  if (empty()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t dimension : dimensions()) {
    const std::int64_t size = dimension < 0 ? -dimension : dimension;
    if (product > kMaxElements / size) return kMaxElements;
    product *= size;
  }
  return product;
}

}  // namespace carma::model

#include "lab/sim/models.h"

#include <algorithm>
#include <cmath>

namespace carma::sim {

double PowerW(const PowerModel& model, double smact) {
  return std::min(model.max_w, model.idle_w + model.dynamic_w * (1.0 - std::exp(-model.k * smact)));
}

double HostFactor(const HostContention& model, double wanted) {
  // Allows for rounding errors, because `wanted` is a running sum.
  constexpr double kRounding = 1 + 1e-9;
  if (model.cores <= 0 || wanted <= model.cores * kRounding) return 1.0;
  return model.cores / wanted;
}

}  // namespace carma::sim

#include "sim/models.h"

#include <algorithm>
#include <cmath>

namespace carma::sim {

double PowerW(const PowerModel& model, double smact) {
  return std::min(model.max_w, model.idle_w + model.dynamic_w * (1.0 - std::exp(-model.k * smact)));
}

double HostFactor(const HostContention& model, int gpu_parts) {
  const double wanted = model.cores_per_gpu_task * gpu_parts;
  if (model.cores <= 0 || wanted <= model.cores) return 1.0;
  return model.cores / wanted;
}

}  // namespace carma::sim

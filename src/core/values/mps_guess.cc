#include "core/values/mps_guess.h"

#include <algorithm>
#include <cmath>

namespace carma::core {
namespace {

constexpr int kUsualBatch = 64;
constexpr double kFinestGrain = 0.15;
constexpr double kCoarsestGrain = 4;

double BatchPerLayer(double batches, int layers) {
  return batches * 60.0 / layers;
}

}  // namespace

std::optional<double> GrainOf(const TaskTraits& traits) {
  if (traits.transformer || !traits.batch_size || !traits.layers || *traits.layers < 1)
    return std::nullopt;
  return std::clamp(BatchPerLayer(*traits.batch_size / 128.0, *traits.layers), kFinestGrain,
                    kCoarsestGrain);
}

MpsParameters GuessByGrain(double sm_active, double grain) {
  return {.sensitivity = 0.784 * sm_active * std::pow(grain, -0.729),
          .pressure = 1.476 * sm_active * std::pow(grain, 0.543)};
}

MpsParameters GuessMps(double sm_active, const TaskTraits& traits) {
  const double u = sm_active;
  if (traits.transformer) return {.sensitivity = 0.485, .pressure = 0.649 * u};
  const double batches = traits.batch_size.value_or(kUsualBatch) / 128.0;
  if (!traits.layers) {
    return {.sensitivity = 0.787 * std::sqrt(u) * std::pow(batches, -0.740),
            .pressure = 1.757 * u * u * std::pow(batches, 0.658)};
  }
  return GuessByGrain(u, BatchPerLayer(batches, *traits.layers));
}

}  // namespace carma::core

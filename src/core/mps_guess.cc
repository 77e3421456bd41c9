#include "core/mps_guess.h"

#include <cmath>

namespace carma::core {
namespace {

constexpr int kUsualBatch = 64;

}  // namespace

MpsParameters GuessMps(double sm_active, const TaskTraits& traits) {
  const double u = sm_active;
  if (traits.transformer) return {.sensitivity = 0.485, .pressure = 0.649 * u};
  const double batches = traits.batch_size.value_or(kUsualBatch) / 128.0;
  if (!traits.layers) {
    return {.sensitivity = 0.787 * std::sqrt(u) * std::pow(batches, -0.740),
            .pressure = 1.757 * u * u * std::pow(batches, 0.658)};
  }
  const double granularity = batches * 60.0 / *traits.layers;
  return {.sensitivity = 0.784 * u * std::pow(granularity, -0.729),
          .pressure = 1.476 * u * std::pow(granularity, 0.543)};
}

}  // namespace carma::core

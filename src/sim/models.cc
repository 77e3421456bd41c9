#include "sim/models.h"

#include <algorithm>
#include <cmath>

namespace carma::sim {
namespace {

// Without MPS the kernels of several processes take turns; some switching always shows.
constexpr double kMaxStreamsActivity = 0.99;

void MpsSpeeds(const Interference& model, std::span<const Load> loads, std::span<double> speeds) {
  double pressure = 0;
  double wanted = 0;
  for (const Load& load : loads) {
    pressure += load.pressure;
    wanted += load.sm_active;
  }
  double delivered = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    speeds[i] = 1.0 / (1.0 + loads[i].sensitivity * (pressure - loads[i].pressure));
    delivered += loads[i].sm_active * speeds[i];
  }
  const double excess = std::max(0.0, wanted - model.mps_saturation);
  const double most = model.mps_saturation / (1.0 + model.mps_oversubscription * excess);
  if (delivered <= most) return;
  for (double& speed : speeds) speed *= most / delivered;
}

void StreamsSpeeds(const Interference& model, std::span<const Load> loads,
                   std::span<double> speeds) {
  // Share of time in which a task keeps the GPU busy; its SM activity underestimates it.
  const auto busy = [&model](const Load& load) {
    return 1.0 - std::pow(1.0 - load.sm_active, model.streams_q);
  };
  double total = 0;
  for (const Load& load : loads) total += busy(load);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const double own = busy(loads[i]);
    speeds[i] = 1.0 / (1.0 + model.streams_a * own * (total - own));
  }
}

}  // namespace

void Speeds(const Interference& model, core::SharingMethod sharing, std::span<const Load> loads,
            std::span<double> speeds) {
  if (sharing == core::SharingMethod::kMps) {
    MpsSpeeds(model, loads, speeds);
  } else {
    StreamsSpeeds(model, loads, speeds);
  }
}

double SmActivity(const Interference& model, core::SharingMethod sharing,
                  std::span<const Load> loads, std::span<const double> speeds) {
  if (sharing == core::SharingMethod::kMps) {
    double quiet = 1.0;
    for (const Load& load : loads) quiet *= 1.0 - load.sm_active;
    return 1.0 - std::pow(quiet, model.smact_exponent);
  }
  double sum = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) sum += loads[i].sm_active * speeds[i];
  return std::min(kMaxStreamsActivity, sum);
}

double PowerW(const PowerModel& model, double smact) {
  return std::min(model.max_w, model.idle_w + model.dynamic_w * (1.0 - std::exp(-model.k * smact)));
}

double HostFactor(const HostContention& model, int gpu_parts) {
  const double wanted = model.cores_per_gpu_task * gpu_parts;
  if (model.cores <= 0 || wanted <= model.cores) return 1.0;
  return model.cores / wanted;
}

}  // namespace carma::sim

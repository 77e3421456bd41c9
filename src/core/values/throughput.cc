#include "core/values/throughput.h"

#include <algorithm>

namespace carma::core {

double SaturationOf(const Interference& model, SharingMethod sharing) {
  return sharing == SharingMethod::kMps ? model.mps_saturation : kStreamsSaturation;
}

void SlowdownsOf(std::span<const Neighbour> tasks, double saturation,
                 std::vector<double>& slowdowns) {
  double pressure = 0;
  for (const Neighbour& each : tasks) pressure += each.load.pressure;
  slowdowns.clear();
  double delivered = 0;
  for (const Neighbour& each : tasks) {
    slowdowns.push_back(1 + each.load.sensitivity * (pressure - each.load.pressure));
    delivered += each.load.sm_active / slowdowns.back();
  }
  const double held_back = std::max(1.0, delivered / saturation);
  for (std::size_t i = 0; i < tasks.size(); ++i) slowdowns[i] *= held_back * tasks[i].cramped;
}

ThroughputEstimate ThroughputOf(std::span<const Neighbour> residents, const Neighbour* newcomer,
                                double saturation) {
  double pressure = newcomer == nullptr ? 0 : newcomer->load.pressure;
  for (const Neighbour& each : residents) pressure += each.load.pressure;
  const auto slowdown = [pressure](const Neighbour& each) {
    return 1 + each.load.sensitivity * (pressure - each.load.pressure);
  };
  ThroughputEstimate outlook;
  for (const Neighbour& each : residents) outlook.delivered += each.load.sm_active / slowdown(each);
  if (newcomer != nullptr) outlook.delivered += newcomer->load.sm_active / slowdown(*newcomer);
  const double held_back = std::max(1.0, outlook.delivered / saturation);
  outlook.delivered = std::min(outlook.delivered, saturation);
  const auto look_at = [&](const Neighbour& each) {
    const double takes = slowdown(each) * held_back * each.cramped;
    outlook.slowest = std::max(outlook.slowest, takes);
    outlook.bearable &= takes <= each.max_slowdown;
    return takes;
  };
  for (const Neighbour& each : residents) look_at(each);
  if (newcomer != nullptr) outlook.newcomer = look_at(*newcomer);
  return outlook;
}

}  // namespace carma::core

#include "sim/memory_model.h"

#include <algorithm>
#include <cmath>

namespace carma::sim {
namespace {

constexpr int kRampSteps = 4;
constexpr base::Duration kGrowthStep{600'000};

// Steps of the ramp done after `since`, 0..kRampSteps.
int RampSteps(const MemoryModel& model, base::Duration since) {
  if (since >= model.ramp) return kRampSteps;
  return static_cast<int>(since * kRampSteps / model.ramp);
}

}  // namespace

std::int64_t HeldMib(const MemoryModel& model, std::int64_t plateau_mib, base::Duration since) {
  double share =
      model.first_share + (1.0 - model.first_share) * RampSteps(model, since) / kRampSteps;
  if (since > model.ramp) {
    const auto steps = (since - model.ramp) / kGrowthStep;
    share +=
        model.growth_per_hour * base::Seconds(kGrowthStep) / 3600.0 * static_cast<double>(steps);
  }
  return std::llround(share * static_cast<double>(plateau_mib));
}

std::optional<base::Duration> NextStep(const MemoryModel& model, base::Duration since) {
  if (since < model.ramp && model.first_share < 1.0) {
    const int next = RampSteps(model, since) + 1;
    // Rounded up, so that the step is done when its time has come.
    return (model.ramp * next + base::Duration{kRampSteps - 1}) / kRampSteps;
  }
  if (model.growth_per_hour <= 0) return std::nullopt;
  const auto steps = std::max(since - model.ramp, base::Duration{0}) / kGrowthStep;
  return model.ramp + kGrowthStep * (steps + 1);
}

std::int64_t AllocatableMib(const MemoryModel& model, std::int64_t usable_mib, int tasks) {
  const std::int64_t lost_mib = model.fragmentation_mib * std::max(0, tasks - 1);
  return std::max<std::int64_t>(0, usable_mib - lost_mib);
}

}  // namespace carma::sim

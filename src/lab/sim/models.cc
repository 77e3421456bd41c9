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

namespace {

constexpr int kRampSteps = 4;
constexpr base::Duration kGrowthStep{600'000};

// Number of ramp steps completed at time `since`: 0..kRampSteps.
int RampSteps(const MemoryModel& model, base::Duration since) {
  if (since >= model.ramp) return kRampSteps;
  return static_cast<int>(since * kRampSteps / model.ramp);
}

bool InSpike(const MemoryModel& model, base::Duration since_ramp) {
  return model.spike_share > 0 && since_ramp >= model.spike_every &&
         since_ramp % model.spike_every < model.spike_lasts;
}

// Time at which the next spike begins or ends, counted from the end of the ramp.
base::Duration NextSpike(const MemoryModel& model, base::Duration since_ramp) {
  const base::Duration begun = model.spike_every * (since_ramp / model.spike_every);
  if (InSpike(model, since_ramp)) return begun + model.spike_lasts;
  return begun + model.spike_every;
}

}  // namespace

std::int64_t HeldMib(const MemoryModel& model, std::int64_t plateau_mib, base::Duration since) {
  double share =
      model.first_share + (1.0 - model.first_share) * RampSteps(model, since) / kRampSteps;
  if (const base::Duration after = since - model.ramp; after > base::Duration{0}) {
    share += model.growth_per_hour * base::Seconds(kGrowthStep) / 3600.0 *
             static_cast<double>(after / kGrowthStep);
    if (InSpike(model, after)) share += model.spike_share;
  }
  return std::llround(share * static_cast<double>(plateau_mib));
}

std::optional<base::Duration> NextStep(const MemoryModel& model, base::Duration since) {
  if (since < model.ramp && model.first_share < 1.0) {
    const int next = RampSteps(model, since) + 1;
    // Rounded up, so the step is done by this time.
    return (model.ramp * next + base::Duration{kRampSteps - 1}) / kRampSteps;
  }
  const base::Duration after = std::max(since - model.ramp, base::Duration{0});
  std::optional<base::Duration> next;
  if (model.growth_per_hour > 0) next = kGrowthStep * (after / kGrowthStep + 1);
  if (model.spike_share > 0) {
    const base::Duration spike = NextSpike(model, after);
    next = next ? std::min(*next, spike) : spike;
  }
  return next ? std::optional(model.ramp + *next) : std::nullopt;
}

std::int64_t AllocatableMib(const MemoryModel& model, std::int64_t usable_mib, std::int64_t tasks) {
  const std::int64_t lost_mib = model.fragmentation_mib * std::max<std::int64_t>(0, tasks - 1);
  return std::max<std::int64_t>(0, usable_mib - lost_mib);
}

}  // namespace carma::sim

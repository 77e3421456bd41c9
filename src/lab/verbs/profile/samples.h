// Samples of GPUs during a run, and what they show about its active time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace carma::cli {

struct ProfileSample {
  double at_s = 0;
  std::optional<double> sm_active;    // mean since the previous sample
  std::optional<double> utilization;  // the driver's coarse utilisation
  std::int64_t used_mib = 0;
  std::optional<double> energy_j;
};
// When the GPU became active for the rest of the run. Interpolates: the activity of the first
// active span divided by the usual activity gives the active time in that span. Uses the coarse
// utilisation if there is no SM activity. Empty if neither is known or the GPU was never active.
// Samples must be in order of time; the first sample only marks the beginning of the second
// sample's span.
std::optional<double> ActiveFrom(std::span<const ProfileSample> samples);
// When the GPU's activity ended, computed in the same way. The last sample should be later.
std::optional<double> ActiveUntil(std::span<const ProfileSample> samples);
// The SM activity summed over all samples, including samples outside the span, divided by to_s -
// from_s; at most 1. Empty if unknown.
std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s);

}  // namespace carma::cli

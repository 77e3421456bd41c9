// Samples of GPUs during a run, and the active time derived from them.
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
// The times at which a GPU became active and at which its activity ended for good; the last sample
// should be later. Interpolates: the activity of the first or last active sample divided by the
// usual activity gives the active time in its span. Uses the coarse utilisation if there is no SM
// activity. Empty if neither is known or the GPU was never active. Samples are in order of time;
// the first only marks the beginning of the second sample's span.
struct ActiveSpan {
  double from_s = 0;
  double until_s = 0;
};
std::optional<ActiveSpan> ActiveSpanOf(std::span<const ProfileSample> samples);
// The SM activity of all samples, including samples outside the span, divided by to_s - from_s; at
// most 1. Empty if unknown.
std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s);

}  // namespace carma::cli

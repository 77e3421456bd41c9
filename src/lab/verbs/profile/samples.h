// What the GPUs did during a run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace carma::cli {

// What one look at a GPU showed.
struct ProfileSample {
  double at_s = 0;
  std::optional<double> sm_active;    // mean since the sample before
  std::optional<double> utilization;  // coarse
  std::int64_t used_mib = 0;
  std::optional<double> energy_j;
};
// When a GPU became active for the rest of the run, as closely as the samples tell: what it did in
// the first active span, over its usual activity, is how long it was active there. By the coarse
// utilisation where nobody counts SM activity. Empty: nobody told either, or it never was active.
// Times of samples rise; the first one only says where the second one's span begins.
std::optional<double> ActiveFrom(std::span<const ProfileSample> samples);
// The same of the moment after which it was active no more; the last sample should be of later.
std::optional<double> ActiveUntil(std::span<const ProfileSample> samples);
// Mean SM activity from then to the end; what was before and after counts as its.
// Empty: not told.
std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s);

}  // namespace carma::cli

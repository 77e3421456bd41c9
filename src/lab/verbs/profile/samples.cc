// Finds the load time, the activity and the end of a run in samples of its GPUs.
#include "lab/verbs/profile/samples.h"

#include <algorithm>
#include <vector>

namespace carma::cli {
namespace {

// A program below this share of its usual activity is still loading.
constexpr double kActiveShare = 0.1;

std::optional<double> ActivityOf(const ProfileSample& sample) {
  return sample.sm_active ? sample.sm_active : sample.utilization;
}

// The median over the second half of the run. The last sample is left out, because it partly covers
// the time after the run.
std::optional<double> UsualActivity(std::span<const ProfileSample> samples) {
  std::vector<double> told;
  for (const ProfileSample& each : samples) {
    if (const auto activity = ActivityOf(each)) told.push_back(*activity);
  }
  if (told.size() > 2) told.pop_back();
  told.erase(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(told.size() / 2));
  if (told.empty()) return std::nullopt;
  const auto middle = told.begin() + static_cast<std::ptrdiff_t>(told.size() / 2);
  std::ranges::nth_element(told, middle);
  return *middle;
}

}  // namespace

std::optional<ActiveSpan> ActiveSpanOf(std::span<const ProfileSample> samples) {
  const std::optional<double> usual = UsualActivity(samples);
  if (!usual || *usual <= 0) return std::nullopt;
  std::optional<ActiveSpan> active;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const std::optional<double> activity = ActivityOf(samples[i]);
    if (!activity || *activity < kActiveShare * *usual) continue;
    const double active_s =
        (samples[i].at_s - samples[i - 1].at_s) * std::min(1.0, *activity / *usual);
    if (!active) active = {.from_s = samples[i].at_s - active_s};
    active->until_s = samples[i - 1].at_s + active_s;
  }
  return active;
}

std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s) {
  double sum = 0;
  bool told = false;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (!samples[i].sm_active) continue;
    told = true;
    sum += *samples[i].sm_active * (samples[i].at_s - samples[i - 1].at_s);
  }
  if (!told || to_s <= from_s) return std::nullopt;
  return std::clamp(sum / (to_s - from_s), 0.0, 1.0);
}

}  // namespace carma::cli

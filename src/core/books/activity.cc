#include "core/books/activity.h"

#include <algorithm>
#include <cmath>

namespace carma::core {
namespace {

constexpr double kLeastActivity = 0.01;

double InHundredths(double sm_active) {
  return std::clamp(std::round(sm_active * 100) / 100, kLeastActivity, 1.0);
}

}  // namespace

std::optional<SeenActivity> ActivityOf(const GpuSample& sample, std::span<const Resident> residents,
                                       Time changed, SharingMethod sharing) {
  if (!sample.sm_active || sample.foreign_processes > 0 || residents.empty()) return std::nullopt;
  if (sample.window_from < changed) return std::nullopt;
  std::optional<std::size_t> unknown;
  double quiet = 1;
  for (std::size_t i = 0; i < residents.size(); ++i) {
    const Resident& each = residents[i];
    if (!each.first_seen || sample.window_from < *each.first_seen + kActivityWarmUp)
      return std::nullopt;
    if (each.sm_active && residents.size() > 1) {
      quiet *= 1 - *each.sm_active;
    } else if (unknown) {
      return std::nullopt;
    } else {
      unknown = i;
    }
  }
  if (!unknown) return std::nullopt;
  const bool takes_turns = sharing != SharingMethod::kMps || residents[*unknown].exclusive;
  if (takes_turns && residents.size() > 1) return std::nullopt;
  if (takes_turns || residents.size() == 1)
    return SeenActivity{*unknown, InHundredths(*sample.sm_active)};
  if (quiet < kLeastQuiet) return std::nullopt;
  const double idle =
      std::pow(std::max(0.0, 1 - *sample.sm_active), 1 / Interference{}.smact_exponent);
  return SeenActivity{*unknown, InHundredths(1 - idle / quiet)};
}

}  // namespace carma::core

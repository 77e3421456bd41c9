#include "core/books/settling.h"

#include <algorithm>

namespace carma::core {
namespace {

// A task's memory counts as settled once it has not risen for this long. Until then it may still
// rise, because frameworks allocate memory during the first steps.
constexpr Duration kStandsStill{15'000};

}  // namespace

bool HasSettled(const GpuSample& sample, std::span<const Resident> residents, Time now,
                Duration timeout) {
  return std::ranges::all_of(residents, [&](const Resident& resident) {
    if (!resident.first_seen) return now - resident.launched >= timeout;
    return sample.window_from >= *resident.first_seen;
  });
}

Settled LookWhetherSettled(const GpuSample& sample, std::span<const Resident> residents,
                           const std::vector<bool>& known, Time now, Duration timeout) {
  const Duration window = sample.taken - sample.window_from;
  Settled settled;
  const auto wait_until = [&](Time when) {
    settled.by = std::max(settled.by.value_or(when), when);
  };
  for (std::size_t i = 0; i < residents.size(); ++i) {
    const Resident& each = residents[i];
    if (known[i]) continue;
    if (!each.first_seen) {
      if (now - each.launched < timeout) wait_until(each.launched + timeout);
      continue;
    }
    if (sample.window_from >= *each.first_seen) continue;
    const std::optional<Time> still = each.memory.since();
    if (!still || sample.taken - *still < kStandsStill) {
      wait_until(std::max(*each.first_seen + window, sample.taken));
      continue;
    }
    const double seen = base::Seconds(sample.taken - *each.first_seen) / base::Seconds(window);
    settled.share = std::min(settled.share, seen);
  }
  return settled;
}

}  // namespace carma::core

#include "gpu/window.h"

#include <algorithm>
#include <cmath>

namespace carma::gpu {

void Window::Add(const Reading& reading) {
  if (!samples_.empty() && reading.taken <= samples_.back().taken) return;
  samples_.push_back({reading.taken, reading.sm_active});
  // One sample at or before the window's start stays: it marks where the next one's span begins.
  const base::Time start = reading.taken - length_;
  while (samples_.size() > 1 && samples_[1].taken <= start) samples_.pop_front();
}

void Window::Clear() {
  samples_.clear();
}

base::Time Window::from() const {
  if (samples_.empty()) return base::Time{};
  return std::max(samples_.front().taken, samples_.back().taken - length_);
}

std::vector<Window::Stretch> Window::Stretches() const {
  std::vector<Stretch> stretches;
  const base::Time start = from();
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    if (!samples_[i].sm_active) return {};
    stretches.push_back(
        {std::max(samples_[i - 1].taken, start), samples_[i].taken, *samples_[i].sm_active});
  }
  return stretches;
}

std::optional<double> Window::SmActive() const {
  if (single()) return samples_.front().sm_active;
  double weighted = 0, total = 0;
  for (const Stretch& stretch : Stretches()) {
    const double span = base::Seconds(stretch.to - stretch.from);
    weighted += stretch.sm_active * span;
    total += span;
  }
  return total > 0 ? std::optional(weighted / total) : std::nullopt;
}

std::optional<double> Window::SmActiveP95() const {
  if (single()) return samples_.front().sm_active;
  std::vector<Stretch> stretches = Stretches();
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.sm_active < b.sm_active; });
  double total = 0;
  for (const Stretch& stretch : stretches) total += base::Seconds(stretch.to - stretch.from);
  double below = 0;
  for (const Stretch& stretch : stretches) {
    below += base::Seconds(stretch.to - stretch.from);
    if (below >= 0.95 * total) return stretch.sm_active;
  }
  return std::nullopt;
}

std::optional<double> Window::SmActiveEwma(base::Duration tau) const {
  if (single()) return samples_.front().sm_active;
  const std::vector<Stretch> stretches = Stretches();
  double weighted = 0, total = 0;
  for (const Stretch& stretch : stretches) {
    // The integral of exp(-age / tau) over the stretch, in units of tau.
    const auto weight_at = [&](base::Time t) {
      return std::exp(-base::Seconds(stretches.back().to - t) / base::Seconds(tau));
    };
    const double weight = weight_at(stretch.to) - weight_at(stretch.from);
    weighted += stretch.sm_active * weight;
    total += weight;
  }
  return total > 0 ? std::optional(weighted / total) : std::nullopt;
}

}  // namespace carma::gpu

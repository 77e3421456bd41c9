#include "gpu/window.h"

#include <algorithm>
#include <cmath>

namespace carma::gpu {

void Window::Add(const Reading& reading) {
  if (!samples_.empty() && reading.taken <= samples_.back().taken) return;
  samples_.push_back({reading.taken, reading.sm_active, reading.utilization});
  // Keeps one sample at or before the window's start, because this sample marks where the next
  // sample's span begins.
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

std::vector<Window::Stretch> Window::Stretches(Value value) const {
  std::vector<Stretch> stretches;
  const base::Time start = from();
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    const std::optional<double>& mean = samples_[i].*value;
    if (!mean) return {};
    stretches.push_back({std::max(samples_[i - 1].taken, start), samples_[i].taken, *mean});
  }
  return stretches;
}

std::optional<double> Window::Mean(Value value) const {
  if (single()) return samples_.front().*value;
  double weighted = 0, total = 0;
  for (const Stretch& stretch : Stretches(value)) {
    const double span = base::Seconds(stretch.to - stretch.from);
    weighted += stretch.mean * span;
    total += span;
  }
  return total > 0 ? std::optional(weighted / total) : std::nullopt;
}

std::optional<double> Window::SmActive() const {
  return Mean(&Sample::sm_active);
}

std::optional<double> Window::Utilization() const {
  return Mean(&Sample::utilization);
}

std::optional<double> Window::SmActiveP95() const {
  if (single()) return samples_.front().sm_active;
  std::vector<Stretch> stretches = Stretches(&Sample::sm_active);
  std::ranges::sort(stretches, [](const Stretch& a, const Stretch& b) { return a.mean < b.mean; });
  double total = 0;
  for (const Stretch& stretch : stretches) total += base::Seconds(stretch.to - stretch.from);
  double below = 0;
  for (const Stretch& stretch : stretches) {
    below += base::Seconds(stretch.to - stretch.from);
    if (below >= 0.95 * total) return stretch.mean;
  }
  return std::nullopt;
}

std::optional<double> Window::SmActiveEwma(base::Duration tau) const {
  if (single()) return samples_.front().sm_active;
  const std::vector<Stretch> stretches = Stretches(&Sample::sm_active);
  double weighted = 0, total = 0;
  for (const Stretch& stretch : stretches) {
    // The integral of exp(-age / tau) over the stretch, in units of tau.
    const auto weight_at = [&](base::Time t) {
      return std::exp(-base::Seconds(stretches.back().to - t) / base::Seconds(tau));
    };
    const double weight = weight_at(stretch.to) - weight_at(stretch.from);
    weighted += stretch.mean * weight;
    total += weight;
  }
  return total > 0 ? std::optional(weighted / total) : std::nullopt;
}

}  // namespace carma::gpu

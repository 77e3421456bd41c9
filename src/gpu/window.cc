#include "gpu/window.h"

#include <algorithm>

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

std::optional<double> Window::SmActive() const {
  if (samples_.empty()) return std::nullopt;
  // A single sample has no span inside the window yet; its own mean is the best there is.
  if (samples_.size() == 1) return samples_.front().sm_active;
  const base::Time start = from();
  double weighted = 0, total = 0;
  for (std::size_t i = 1; i < samples_.size(); ++i) {
    if (!samples_[i].sm_active) return std::nullopt;
    const double span = base::Seconds(samples_[i].taken - std::max(samples_[i - 1].taken, start));
    weighted += *samples_[i].sm_active * span;
    total += span;
  }
  return weighted / total;
}

}  // namespace carma::gpu

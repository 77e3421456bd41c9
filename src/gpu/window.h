// A rolling window over the readings of one GPU.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/time.h"
#include "gpu/probe.h"

namespace carma::gpu {

class Window {
 public:
  explicit Window(base::Duration length) : length_(length) {}
  // Readings must come in order of `taken`; a reading older than the last one is ignored.
  void Add(const Reading& reading);
  void Clear();
  // Start of the covered span [from(), last taken]. With a single sample the span is empty.
  base::Time from() const;
  // Time-weighted mean of SM activity over [from(), last taken]; empty if any part of that span
  // lacks it.
  std::optional<double> SmActive() const;
  // The mean of the coarse utilisation over the same span.
  std::optional<double> Utilization() const;
  // The 95th percentile of SM activity over the same span; empty when the mean is.
  std::optional<double> SmActiveP95() const;
  // Mean over the same span with weight exp(-age / tau): it follows a change within a few tau,
  // while the plain mean needs the whole window. Empty when the mean is. tau must be > 0.
  std::optional<double> SmActiveEwma(base::Duration tau) const;

 private:
  struct Sample {
    base::Time taken;
    std::optional<double> sm_active;    // mean over (previous taken, taken]
    std::optional<double> utilization;  // mean over the same span
  };
  using Value = std::optional<double> Sample::*;
  // A part of the window with the mean of a value over it.
  struct Stretch {
    base::Time from;
    base::Time to;
    double mean;
  };
  // The stretches of [from(), last taken], oldest first. Empty if a stretch lacks the value or
  // there are fewer than two samples.
  std::vector<Stretch> Stretches(Value value) const;
  std::optional<double> Mean(Value value) const;
  // A single sample spans no stretch yet, so its value is used directly.
  bool single() const { return samples_.size() == 1; }

  base::Duration length_;
  std::deque<Sample> samples_;
};

}  // namespace carma::gpu

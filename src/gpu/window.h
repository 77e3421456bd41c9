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
  // Readings must be added in order of `taken`. A reading that is older than the last one is
  // ignored.
  void Add(const Reading& reading);
  void Clear();
  // Start of the covered span [from(), last taken]. The span is empty if there is a single sample.
  base::Time from() const;
  // Time-weighted mean of SM activity over [from(), last taken]. Empty if any part of this span has
  // no value.
  std::optional<double> SmActive() const;
  // Time-weighted mean of the coarse utilisation over the same span.
  std::optional<double> Utilization() const;
  // The 95th percentile of SM activity over the same span. Empty if the mean is empty.
  std::optional<double> SmActiveP95() const;
  // Mean over the same span with weight exp(-age / tau). It follows a change within a few tau,
  // whereas the time-weighted mean needs the whole window. Empty if the mean is empty. tau must be
  // > 0.
  std::optional<double> SmActiveEwma(base::Duration tau) const;

 private:
  struct Sample {
    base::Time taken;
    std::optional<double> sm_active;    // mean over (previous taken, taken]
    std::optional<double> utilization;  // mean over the same span
  };
  using Value = std::optional<double> Sample::*;
  // A part of the window and the mean of a value over it.
  struct Stretch {
    base::Time from;
    base::Time to;
    double mean;
  };
  // The parts of [from(), last taken], oldest first. Empty if a part has no value or there are
  // fewer than two samples.
  std::vector<Stretch> Stretches(Value value) const;
  std::optional<double> Mean(Value value) const;
  // True if there is only one sample, whose value is used directly because it covers no span yet.
  bool single() const { return samples_.size() == 1; }

  base::Duration length_;
  std::deque<Sample> samples_;
};

}  // namespace carma::gpu

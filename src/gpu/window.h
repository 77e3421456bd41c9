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
  // Readings come in order of `taken`; older ones than the last are ignored.
  void Add(const Reading& reading);
  void Clear();
  // Start of the covered span: samples in [from(), last taken]; equal to the last taken while there
  // is one sample.
  base::Time from() const;
  // Time-weighted mean of SM activity over [from(), last taken]; empty if any part of that span has
  // none.
  std::optional<double> SmActive() const;
  // The same of the coarse utilisation.
  std::optional<double> Utilization() const;
  // The SM activity that was not exceeded for 95 % of that span; empty as the mean is.
  std::optional<double> SmActiveP95() const;
  // Mean over the same span in which a moment counts exp(-age / tau): it follows a change within
  // some tau where the plain mean needs the whole window. Empty as the mean is. tau must be > 0.
  std::optional<double> SmActiveEwma(base::Duration tau) const;
  bool empty() const { return samples_.empty(); }

 private:
  struct Sample {
    base::Time taken;
    std::optional<double> sm_active;    // mean over (previous taken, taken]
    std::optional<double> utilization;  // the same
  };
  using Value = std::optional<double> Sample::*;
  // One stretch of the window in which a value had this mean.
  struct Stretch {
    base::Time from;
    base::Time to;
    double mean;
  };
  // The stretches of [from(), last taken], oldest first; empty if any of them has none, or if there
  // are fewer than two samples.
  std::vector<Stretch> Stretches(Value value) const;
  std::optional<double> Mean(Value value) const;
  // What a single sample says; it has no stretch inside the window yet, and is the best there is.
  bool single() const { return samples_.size() == 1; }

  base::Duration length_;
  std::deque<Sample> samples_;
};

}  // namespace carma::gpu

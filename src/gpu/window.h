// A rolling window over the readings of one GPU.
#pragma once

#include <deque>
#include <optional>

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
  bool empty() const { return samples_.empty(); }

 private:
  struct Sample {
    base::Time taken;
    std::optional<double> sm_active;  // mean over (previous taken, taken]
  };
  base::Duration length_;
  std::deque<Sample> samples_;
};

}  // namespace carma::gpu

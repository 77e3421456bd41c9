// Checks Readings from any source for impossible values. Impossible single numbers (a sentinel,
// 4000 %) are rejected earlier, when they are converted.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "gpu/probe.h"

namespace carma::gpu {

// How long SM activity may stay zero while kernels run. After some faults the counters are stuck at
// 0 (NVIDIA/DCGM issue 303), so the GPU would look idle. A single reading with zero activity may
// be due to timing.
inline constexpr base::Duration kStuckSpan{10'000};
inline constexpr double kStuckSmActive = 0.0005;  // less than half of dcgmi's resolution
inline constexpr double kFullUtilization = 0.99;

// One per GPU.
class Sanity {
 public:
  // Must be called for each reading in chronological order. Returns kCorrupt, naming the GPU, if
  // more memory is used than exists, a process uses more than the GPU has, a value is NaN or out of
  // range, the energy counter decreases (reported once), or the activity counters are stuck.
  ReadResult<Unit> Check(const std::string& uuid, const Reading& reading);
  // Must be called after a driver reload, which restarts the counters.
  void Forget() { *this = {}; }

 private:
  std::string Objection(const Reading& reading);

  double last_energy_j_ = 0;
  std::optional<base::Time> stuck_since_;
};

}  // namespace carma::gpu

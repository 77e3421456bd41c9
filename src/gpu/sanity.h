// What a whole Reading cannot say, whoever made it. The only place that judges this; what a single
// number cannot be (a sentinel, a percentage of 4000) is sorted out where it is converted.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "gpu/probe.h"

namespace carma::gpu {

// SM activity of nothing while kernels run all the time: after some faults the counters stand still
// at 0 (NVIDIA/DCGM issue 303), and the GPU would look idle. One reading may be caught between two
// clocks; this long is no chance.
inline constexpr base::Duration kStuckSpan{10'000};
inline constexpr double kStuckSmActive = 0.0005;  // less than half of what dcgmi can print
inline constexpr double kFullUtilization = 0.99;

// One per GPU.
class Sanity {
 public:
  // In the order of the readings. Errors: kCorrupt, of the GPU: more memory in use than there is, a
  // process larger than the GPU, a value that is no number or out of its range, an energy counter
  // that went back (told once), activity counters that are stuck.
  ReadResult<base::Unit> Check(const std::string& uuid, const Reading& reading);
  // The driver was reloaded: its counters begin anew.
  void Forget() { *this = {}; }

 private:
  std::string Objection(const Reading& reading);

  double last_energy_j_ = 0;
  std::optional<base::Time> stuck_since_;
};

}  // namespace carma::gpu

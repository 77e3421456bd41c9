// The known facts about a task's use of a GPU and its reaction to neighbours. Values only; the
// calculations are in core/values/interference.h.
#pragma once

#include <optional>

#include "base/time.h"
#include "core/values/mps_guess.h"

namespace carma::core {

struct Profile {
  std::optional<double> sm_active;   // alone on its GPU, 0..1
  std::optional<MpsParameters> mps;  // sensitivity and pressure, if measured
  std::optional<double> grain;       // kernel size (mps_guess.h), if `mps` is unknown
  std::optional<double> cpus;        // busy hardware threads per GPU
  // Peak on any GPU but the first, divided by the peak on any GPU.
  std::optional<double> others_share;
  std::optional<base::Duration> alone;  // run time alone on the fastest type
  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace carma::core

// What is known about how a task uses a GPU and how it reacts to neighbours. Values only;
// core/values/interference.h has the calculations.
#pragma once

#include <optional>

#include "base/time.h"
#include "core/values/mps_guess.h"

namespace carma::core {

struct Profile {
  std::optional<double> sm_active;   // when running alone, 0..1
  std::optional<MpsParameters> mps;  // sensitivity and pressure, if measured
  std::optional<double> grain;       // kernel size (mps_guess.h), if `mps` is unknown
  std::optional<double> cpus;        // busy hardware threads per GPU
  // The highest peak on any GPU except the first, divided by the highest peak on any GPU.
  std::optional<double> others_share;
  std::optional<base::Duration> alone;  // solo run time on the fastest GPU type
  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace carma::core

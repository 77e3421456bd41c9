// How a task uses a GPU and reacts to neighbours, as far as known. Values only;
// core/values/interference.h computes with them.
#pragma once

#include <optional>

#include "base/time.h"
#include "core/values/mps_guess.h"

namespace carma::core {

struct Profile {
  std::optional<double> sm_active;      // alone on its GPU, 0..1
  std::optional<MpsParameters> mps;     // sensitivity and pressure, if measured
  std::optional<double> grain;          // else size of its kernels (mps_guess.h)
  std::optional<double> cpus;           // busy hardware threads per GPU
  std::optional<double> others_share;   // highest peak on GPUs but the first / on any
  std::optional<base::Duration> alone;  // run time alone on the fastest type
  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace carma::core

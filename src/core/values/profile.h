// What is known of how a task uses a GPU and minds its neighbours there. Values
// only; what it comes to is core/interference.h's to say.
#pragma once

#include <optional>

#include "base/time.h"
#include "core/values/mps_guess.h"

namespace carma::core {

struct Profile {
  std::optional<double> sm_active;      // alone on its GPU, 0..1
  std::optional<MpsParameters> mps;     // what it minds and does, where that was measured
  std::optional<double> grain;          // else by how large its kernels are: mps_guess.h
  std::optional<double> cpus;           // hardware threads kept busy for each of its GPUs
  std::optional<base::Duration> alone;  // run time with GPUs to itself, the server's fastest
  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace carma::core

// CUDA_VISIBLE_DEVICES as CUDA reads it, with and without an MPS server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/simgpu/mps_wire.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// The places that a CUDA program sees, in its order; like CUDA it stops at the first invalid entry.
// Numbers are GPU indexes in the list. A divided GPU means its first instance, and a program that
// sees an instance sees nothing else. Errors: kInvalid: a GPU twice.
Result<std::vector<int>> VisibleGpus(const std::vector<GpuIdentity>& places,
                                     std::string_view visible_devices);

// A client's GPUs, and its server's limits on each.
struct MpsView {
  std::vector<int> gpus;
  std::vector<std::optional<std::int64_t>> limits_mib;
};

// Applies both values of CUDA_VISIBLE_DEVICES: the server's makes a list, from which the client's
// chooses. limits: the client's own. Errors: those of VisibleGpus.
Result<MpsView> SeeThroughMps(const std::vector<GpuIdentity>& places, const MpsWelcome& welcome,
                              std::string_view visible_devices, const MpsMemoryLimits& limits);

// The control group (cgroup v2) of this process as the full path of its folder; empty: only the
// root group.
std::string OwnGroup();

}  // namespace carma::simgpu

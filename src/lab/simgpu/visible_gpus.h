// Interprets CUDA_VISIBLE_DEVICES as CUDA does, with and without an MPS server.
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

// Returns the places that a CUDA program sees, in the program's order, as indexes into `places`. As
// in CUDA, the list ends at the first invalid entry of `visible_devices`. A number in
// `visible_devices` is a GPU's index in `places`. A MIG GPU stands for its first instance, and a
// program that sees an instance sees nothing else. Returns kInvalid if a GPU is listed twice.
Result<std::vector<int>> VisibleGpus(const std::vector<GpuIdentity>& places,
                                     std::string_view visible_devices);

// A client's GPUs and its memory limit on each.
struct MpsView {
  std::vector<int> gpus;
  std::vector<std::optional<std::int64_t>> limits_mib;
};

// Applies both values of CUDA_VISIBLE_DEVICES: the server's value gives a list, and the client's
// value selects from it. limits: the client's own limits. Returns the errors of VisibleGpus.
Result<MpsView> SeeThroughMps(const std::vector<GpuIdentity>& places, const MpsWelcome& welcome,
                              std::string_view visible_devices, const MpsMemoryLimits& limits);

// This process's control group (cgroup v2), as the full path of its folder. Empty for the root
// group.
std::string OwnGroup();

}  // namespace carma::simgpu

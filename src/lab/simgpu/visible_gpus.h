// CUDA_VISIBLE_DEVICES as CUDA reads it.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// The places that a CUDA program sees, in its order; like CUDA it stops at the first invalid entry.
// Numbers are GPU indexes in the list. A divided GPU means its first instance, and a program that
// sees an instance sees nothing else. Errors: kInvalid: a GPU twice.
base::Result<std::vector<int>> VisibleGpus(const std::vector<GpuIdentity>& places,
                                           std::string_view visible_devices);

}  // namespace carma::simgpu

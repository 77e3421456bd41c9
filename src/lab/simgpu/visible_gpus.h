// CUDA_VISIBLE_DEVICES as CUDA reads it.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// The places of a list that a CUDA program would see, in its own order; like CUDA it stops at the
// first entry that names none. Numbers count GPUs, or what stands at their place in the list; a
// divided GPU stands for its first instance, and who sees an instance sees nothing else. Errors:
// kInvalid: a GPU twice.
base::Result<std::vector<int>> VisibleGpus(const std::vector<GpuIdentity>& places,
                                           std::string_view visible_devices);

}  // namespace carma::simgpu

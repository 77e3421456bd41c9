// Reads a GPU's condition from NVML.
#pragma once

#include "gpu/nvml_devices.h"
#include "gpu/nvml_library.h"
#include "gpu/probe.h"

namespace carma::gpu {

// Returns the condition of the whole GPU, even for an instance, or an error from
// NvmlCalls::FailureOf().
ReadResult<Condition> AskCondition(NvmlCalls& calls, const NvmlDevice& device);

}  // namespace carma::gpu

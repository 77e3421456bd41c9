// The condition of a GPU, as NVML reports it.
#pragma once

#include "gpu/nvml_devices.h"
#include "gpu/nvml_library.h"
#include "gpu/probe.h"

namespace carma::gpu {

// The condition of the whole GPU, even for its instances. Errors: those of NvmlCalls::FailureOf().
ReadResult<Condition> AskCondition(NvmlCalls& calls, const NvmlDevice& device);

}  // namespace carma::gpu

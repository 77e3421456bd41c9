// Stores the last known list of GPUs in the state folder, so that carmad can match running tasks to
// GPUs even if the driver does not respond at startup.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::daemon {

// The stored GPUs; empty if there are none or the file is damaged.
std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir);
// Fills in the stored UUID, name and memory of devices that could not be described, without
// clearing their `trouble`. GPUs are matched as in gpu::SameGpus(). A GPU that was divided into
// MIG instances gets its stored instances, so the result may be longer than `devices`. A GPU on
// which MIG is now on is not filled in if it was stored as a whole GPU or without instances.
std::vector<gpu::DeviceInfo> Recognised(const std::vector<gpu::DeviceInfo>& devices,
                                        const std::vector<gpu::DeviceInfo>& known);
// The known GPUs that the driver no longer lists, as "GPU-a (NVIDIA A100 at 00000000:07:00.0)".
// Empty if a listed GPU could not be described, because that may be the missing one. A GPU that was
// divided into MIG instances is not missing.
std::vector<std::string> NoLongerListed(const std::vector<gpu::DeviceInfo>& known,
                                        const std::vector<gpu::DeviceInfo>& devices);
// Writes the file if any description has changed. A GPU that could not be described keeps its
// earlier description. Leaves the file as it is if a listed GPU was not recognised and a stored GPU
// is not in the list, because they may be the same GPU. Write errors are harmless and only logged.
void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices);

}  // namespace carma::daemon

// The GPUs as last seen, kept in the state folder: with them a carmad whose driver is silent at
// start still knows which tasks run where.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::daemon {

// The stored GPUs; empty if none were stored or the file is damaged.
std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir);
// Completes GPUs that could not be described (DeviceInfo::trouble) with their stored UUID, name and
// memory. They keep their trouble. They are matched by UUID or address, else by number if all other
// GPUs of the list have their old numbers.
std::vector<gpu::DeviceInfo> Recognised(std::vector<gpu::DeviceInfo> devices,
                                        const std::vector<gpu::DeviceInfo>& known);
// The known GPUs that a list of the driver lacks, as "GPU-a (NVIDIA A100 at 00000000:07:00.0)".
// None if a listed GPU is in trouble, because it may be the missing one, or if the GPU was divided
// into instances.
std::vector<std::string> NoLongerListed(const std::vector<gpu::DeviceInfo>& known,
                                        const std::vector<gpu::DeviceInfo>& devices);
// Writes the file only if a description has changed. A GPU in trouble keeps its earlier
// description. A failure is logged and does no harm.
void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices);

}  // namespace carma::daemon

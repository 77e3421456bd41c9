// Stores the last seen list of GPUs in the state folder. If the driver does not answer when carmad
// starts, carmad can still match running tasks to GPUs.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::daemon {

// The stored GPUs; empty if there are none or the file is damaged.
std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir);
// Completes GPUs that could not be described (DeviceInfo::trouble) with their stored UUID, name and
// memory. Their `trouble` stays set. A GPU is matched by UUID or address, else by number if all
// other GPUs of the list have their old numbers.
std::vector<gpu::DeviceInfo> Recognised(std::vector<gpu::DeviceInfo> devices,
                                        const std::vector<gpu::DeviceInfo>& known);
// The known GPUs that are missing from the driver's list, as "GPU-a (NVIDIA A100 at
// 00000000:07:00.0)". Empty if a listed GPU could not be described, because it may be the missing
// GPU. A GPU that was divided into instances does not count as missing.
std::vector<std::string> NoLongerListed(const std::vector<gpu::DeviceInfo>& known,
                                        const std::vector<gpu::DeviceInfo>& devices);
// Writes the file if a description has changed. A GPU that could not be described keeps its earlier
// description. A failed write is only logged, because it does no harm.
void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices);

}  // namespace carma::daemon

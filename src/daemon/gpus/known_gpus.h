// The GPUs as last seen, kept in the state folder: with them a carmad whose driver is silent at
// start still knows which tasks run where.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::daemon {

// Empty if none were stored or the file is damaged.
std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir);
// Completes GPUs that could not be described (DeviceInfo::trouble) with their stored UUID, name and
// memory. They keep their trouble. They are matched by UUID or address, else by number if all other
// GPUs of the list have their old numbers.
std::vector<gpu::DeviceInfo> Recognised(std::vector<gpu::DeviceInfo> devices,
                                        const std::vector<gpu::DeviceInfo>& known);
// Writes only changes, and for a GPU in trouble its earlier description; a failure is logged and
// harmless.
void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices);

}  // namespace carma::daemon

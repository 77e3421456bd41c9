// The GPUs as last seen, kept in the state folder: a daemon whose driver is silent at start still
// knows whose tasks run where.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::daemon {

// Empty if none were kept or the file is damaged.
std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir);
// Gives GPUs that could not be described (DeviceInfo::trouble) what is known of them from before:
// UUID, name, memory. They keep their trouble. Known by their UUID or address, else by their number
// if all other GPUs of the list are where they were.
std::vector<gpu::DeviceInfo> Recognised(std::vector<gpu::DeviceInfo> devices,
                                        const std::vector<gpu::DeviceInfo>& known);
// Writes only what changed, and of a GPU in trouble what was known before; a failure is logged and
// harmless.
void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices);

}  // namespace carma::daemon

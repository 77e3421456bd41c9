// The GPUs as last seen, kept in the state folder: a daemon whose driver is silent at start still
// knows whose tasks run where.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::daemon {

// Empty if none were kept or the file is damaged.
std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir);
// Writes only what changed; a failure is logged and harmless.
void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices);

}  // namespace carma::daemon

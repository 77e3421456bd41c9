// Which control group (cgroup v2) a process is in.
#pragma once

#include <string>

namespace carma::simgpu {

// The group of this process as the full path of its folder; empty: only the root group.
std::string OwnGroup();

}  // namespace carma::simgpu

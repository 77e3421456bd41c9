// Which control group (cgroup v2) a process is in.
#pragma once

#include <string>

namespace carma::simgpu {

// That of this process, as the full path of its folder; empty: it is in none below the root.
std::string OwnGroup();

}  // namespace carma::simgpu

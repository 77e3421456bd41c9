// The name of this machine.
#pragma once

#include <string>

namespace carma::base {

// From the kernel; empty if unknown.
std::string HostName();
// The same up to its first dot.
std::string ShortHostName();

}  // namespace carma::base

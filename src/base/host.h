// The name of this machine.
#pragma once

#include <string>

namespace carma::base {

// The host name from the kernel; empty if unknown.
std::string HostName();
// The host name up to its first dot.
std::string ShortHostName();

}  // namespace carma::base

// The name of this machine.
#pragma once

#include <string>

namespace carma::base {

// As the kernel has it; empty if it does not tell.
std::string HostName();
// The same up to its first dot.
std::string ShortHostName();

}  // namespace carma::base

// Which start of the machine the state folder belongs to.
#pragma once

#include <string>

namespace carma::daemon {

// This start of the machine: of a container and of a user's service manager (rootless) too, in
// which the kernel's boot is older. Empty where the kernel does not tell: no start is known to be
// this one.
std::string MachineStart();

// True if the machine was started anew since the folder was last marked; marks it. A folder without
// a mark, or a kernel that does not tell, says false. A mark that cannot be written is logged.
bool MarkBoot(const std::string& state_dir, const std::string& boot_id);

}  // namespace carma::daemon

// Which start of the machine the state folder belongs to.
#pragma once

#include <string>

namespace carma::daemon {

// Identifies this start of the machine, container or (rootless) user's service manager; the
// kernel's boot may be older. Empty if the kernel does not report it: then no start counts as this
// one.
std::string MachineStart();

// Marks the folder; true if the machine was restarted since it was last marked. False without an
// earlier mark or if the kernel does not report the boot. A mark that cannot be written is logged.
bool MarkBoot(const std::string& state_dir, const std::string& boot_id);

}  // namespace carma::daemon

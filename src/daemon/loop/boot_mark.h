// Records to which start of the machine the state folder belongs.
#pragma once

#include <string>

namespace carma::daemon {

// Identifies this start of the machine, of the container or of a rootless user's service manager;
// the kernel's boot may be older. Empty if the kernel does not report it; every start then counts
// as a different one.
std::string MachineStart();

// Marks the folder with boot_id. Returns true if the machine was restarted since the last mark,
// false also if there is no earlier mark or the kernel does not report the boot. A failure to write
// the mark is logged.
bool MarkBoot(const std::string& state_dir, const std::string& boot_id);

}  // namespace carma::daemon

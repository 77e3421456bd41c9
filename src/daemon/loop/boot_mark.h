// Detects machine restarts using a mark in the state folder.
#pragma once

#include <string>

namespace carma::daemon {

// A value that changes whenever the machine restarts. It also changes when only the container or a
// rootless user's service manager restarts. Empty if the kernel does not report a boot ID; every
// start then counts as a new boot.
std::string MachineStart();

// Marks the folder with boot_id. Returns true if the machine has restarted since the last mark, and
// false if there is no earlier mark or boot_id is empty. Logs a warning if the mark cannot be
// written.
bool MarkBoot(const std::string& state_dir, const std::string& boot_id);

}  // namespace carma::daemon

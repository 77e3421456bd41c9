// Which start of the machine the state folder belongs to.
#pragma once

#include <string>

namespace carma::daemon {

// True if the machine was started anew since the folder was last marked; marks it. A folder without
// a mark, or a kernel that does not tell, says false. A mark that cannot be written is logged.
bool MarkBoot(const std::string& state_dir, const std::string& boot_id);

}  // namespace carma::daemon

// Reads the exit status of processes that are not our children.
#pragma once

#include <optional>

#include "base/process_id.h"
#include "base/unique_fd.h"

namespace carma::base {

// Returns a status like waitpid(), or empty if the process still runs or its status is unknown.
// Until the parent reaps the process, /proc shows the status to whoever may inspect the process;
// afterwards, Linux 6.15 and newer report it for a pidfd that was opened before. pidfd may be
// empty.
std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd);

}  // namespace carma::base

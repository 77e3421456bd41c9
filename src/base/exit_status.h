// Reads the exit status of processes that are not children of this process.
#pragma once

#include <optional>

#include "base/process_id.h"
#include "base/unique_fd.h"

namespace carma::base {

// Returns the status as waitpid() would report it; empty if the process is running or its status is
// unknown. /proc shows the status until the parent reaps the process. After that, only Linux 6.15
// and newer report it, through a pidfd opened before the reaping. pidfd may be empty.
std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd);

}  // namespace carma::base

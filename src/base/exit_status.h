// Reads the exit status of processes that are not children of this process.
#pragma once

#include <optional>

#include "base/process_id.h"
#include "base/unique_fd.h"

namespace carma::base {

// Returns a status as from waitpid(), or nothing if the process is still running or its status is
// unknown. Until its parent reaps the process, /proc shows the status to anyone who may inspect the
// process. After that, Linux 6.15 and newer report it through a pidfd that was opened before the
// process was reaped. pidfd may be empty.
std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd);

}  // namespace carma::base

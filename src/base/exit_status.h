// Exit status of processes that are not our children.
#pragma once

#include <optional>

#include "base/process_id.h"
#include "base/unique_fd.h"

namespace carma::base {

// As from waitpid(); empty: the process still runs, or its status is unknown. Until its parent
// reaps it, /proc shows it to those who may inspect the process; afterwards Linux 6.15 and newer
// report it for a pidfd opened before. pidfd may be empty.
std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd);

}  // namespace carma::base

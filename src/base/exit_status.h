// How processes have ended that are no children of ours.
#pragma once

#include <optional>

#include "base/process_id.h"
#include "base/unique_fd.h"

namespace carma::base {

// As waitpid() would tell; empty: the process runs, or the kernel does not tell. While its parent
// has not asked, /proc does, to those who may look into the process; after that Linux 6.15 and
// newer do, where the pidfd was there before. pidfd may be empty.
std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd);

}  // namespace carma::base

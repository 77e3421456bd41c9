// Starting carma-shim from a process with many threads.
#pragma once

#include <string>

#include "base/process_id.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

struct SpawnedShim {
  base::ProcessId process;
  base::UniqueFd process_fd;  // pidfd; empty if none could be had
  base::UniqueFd answers;     // its early answers, non-blocking
};

// In a session of its own, all signals blocked until it listens, no descriptor but its end of the
// pipe, stderr to shim.log, an environment of its own: nothing of ours outlives us in it, and
// nothing of the task's user reaches it. Does not copy our memory (posix_spawn).
// Errors: the system's; no shim runs then.
base::Result<SpawnedShim> SpawnShim(const std::string& shim_path, const std::string& attempt_dir);

}  // namespace carma::task

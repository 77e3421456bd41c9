// Starts carma-shim from a multithreaded process.
#pragma once

#include <string>

#include "base/process_id.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

struct SpawnedShim {
  base::ProcessId process;
  base::UniqueFd process_fd;  // pidfd; empty if not available
  base::UniqueFd answers;     // the shim's early answers, non-blocking
};

// Starts the shim in its own session. All signals remain blocked until the shim listens to them.
// The shim gets no descriptor except its end of the pipe, writes stderr to shim.log, and has a
// fresh environment with nothing from carmad or the task's user. Does not copy carmad's memory
// (posix_spawn). After a system error, no shim is running.
Result<SpawnedShim> SpawnShim(const std::string& shim_path, const std::string& attempt_dir);

}  // namespace carma::task

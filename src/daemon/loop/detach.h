// Runs the daemon detached from the shell, for `carmad --background`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

#include "base/result.h"

namespace carma::daemon {

// The result of starting a detached daemon.
struct Detached {
  pid_t pid = 0;
  bool serves = false;
  int status = 0;  // from waitpid(), if the process ended before it served
};

// Calls `run` in a new process with its own session, in "/", with standard input and output at
// /dev/null. The result of `run` becomes the exit code. Standard error stays open for messages
// until the process serves. Waits until the process serves (`run` calls its argument) or has ended;
// after `limit` the process is killed. Must be called before any thread is started. Errors: kIo (no
// process, no pipe), kUnavailable (the limit).
Result<Detached> RunDetached(const std::function<int(std::function<void()> serves)>& run,
                             std::chrono::milliseconds limit);

}  // namespace carma::daemon

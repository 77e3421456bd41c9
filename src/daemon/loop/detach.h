// Detaching from the shell: `carmad --background`.
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
  int status = 0;  // from waitpid(), if it ended before it served
};

// Calls `run` in a new process in a session of its own, in "/", with standard input and output at
// /dev/null; its result becomes the exit code. Standard error stays open for messages until the
// process serves. Waits until the process serves (`run` calls the function that it got) or has
// ended; after `limit` it is killed. Call it before any thread is started. Errors: kIo (no process,
// no pipe), kUnavailable (the limit).
Result<Detached> RunDetached(const std::function<int(std::function<void()> serves)>& run,
                             std::chrono::milliseconds limit);

}  // namespace carma::daemon

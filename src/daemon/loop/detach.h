// Starts the daemon detached from the shell, for `carmad --background`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

#include "base/result.h"

namespace carma::daemon {

// The outcome of starting a detached daemon.
struct Detached {
  pid_t pid = 0;
  bool serves = false;
  int status = 0;  // from waitpid(), if the process exited before it was ready
};

// Calls `run` in a new process with its own session, in "/", with standard input and output
// redirected to /dev/null. The process exits with the result of `run`. `run` calls its argument to
// report that the process is ready; until then, standard error stays open for messages.
//
// Waits until the process is ready or has exited, and kills it after `limit`. Must be called before
// any thread is started. Returns a system error if no process or pipe can be created, and
// kUnavailable after `limit`.
Result<Detached> RunDetached(const std::function<int(std::function<void()> serves)>& run,
                             std::chrono::milliseconds limit);

}  // namespace carma::daemon

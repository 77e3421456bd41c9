// A daemon that leaves the shell which started it: `carmad --background`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

#include "base/result.h"

namespace carma::daemon {

// What became of a process that was started to serve.
struct Detached {
  pid_t pid = 0;
  bool serves = false;
  int status = 0;  // as waitpid() gives it, where it ended before it served
};

// Calls `run` in a process of its own and makes its value the exit code there: in a new session, in
// "/", standard input and output at /dev/null; standard error stays, for what it has to say until
// it serves. Waits until it does (it calls what it was given) or has ended; one that takes longer
// than `limit` is killed. Before any thread is started. Errors: kIo (no process, no pipe),
// kUnavailable (the limit).
base::Result<Detached> RunDetached(const std::function<int(std::function<void()> serves)>& run,
                                   std::chrono::milliseconds limit);

}  // namespace carma::daemon

// The implementation of carma-shim: one process per attempt that starts the task, owns its exit
// status and its output, and outlives carmad. task/shim/shim_protocol.h describes how an attempt is
// kept from running more than once.
#pragma once

#include <string>

namespace carma::task {

// Claims the attempt, starts and watches its task, and leaves a report. Single-threaded.
// attempt_dir: absolute path of a folder with a launch order. The shim's own errors go to stderr
// (shim.log). Returns the exit status: 0 if a report was left, kShimNotOwner if the attempt has
// another owner, 1 if it could not be claimed (nothing ran or will run).
int RunShim(const std::string& attempt_dir);

}  // namespace carma::task

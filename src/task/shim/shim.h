// The body of carma-shim: one process per attempt that starts the task, owns its exit status and
// its output, and survives the daemon. Rules of exactly once: task/shim/shim_protocol.h.
#pragma once

#include <string>

namespace carma::task {

// Claims the attempt, starts its task, watches over it, leaves its report. Single-threaded.
// attempt_dir: absolute, with an order in it. Complaints about the shim itself go to stderr
// (shim.log). Returns the exit status: 0 with a report left, kShimNotOwner if the attempt is
// somebody else's, 1 if it could not even be claimed (nothing ran and nothing will).
int RunShim(const std::string& attempt_dir);

}  // namespace carma::task

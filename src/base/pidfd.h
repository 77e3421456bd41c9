// Handles processes through file descriptors (pidfds). glibc's own wrappers are not used, because
// glibc 2.36 does not declare them extern "C", so C++ code cannot link to them.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace carma::base {

// The descriptor is close-on-exec and becomes readable when the process exits. If there is no such
// process, returns an empty descriptor and sets errno.
inline UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

// Returns false and sets errno if the process has exited or this process may not signal it.
inline bool SendSignal(const UniqueFd& pidfd, int number) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0U) == 0;
}

}  // namespace carma::base

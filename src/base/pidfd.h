// Processes as descriptors. glibc 2.36 declares its own wrappers without C linkage, so C++ cannot
// link them.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace carma::base {

// Readable once the process has ended; empty with errno if there is none. Close-on-exec.
inline UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

// False with errno: the process has ended, or is not ours to signal.
inline bool SendSignal(const UniqueFd& pidfd, int number) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0U) == 0;
}

}  // namespace carma::base

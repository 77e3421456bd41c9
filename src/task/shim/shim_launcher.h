// The real Launcher, with one carma-shim per attempt (task/shim/shim_protocol.h, task/shim/shim.h).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "task/process/cgroup.h"
#include "task/shim/launcher.h"

namespace carma::task {

struct ShimLauncherOptions {
  std::string shim_path;  // absolute path of carma-shim
  CgroupBase cgroup;      // from FindCgroupBase(); if its path is empty, no groups are used
  // A shim counts as hung if it takes this much longer than the task's grace period to stop the
  // task.
  base::Duration hang_margin{15'000};
};

// The launcher must be used from one thread only. Destroying the launcher stops monitoring, while
// shims and tasks continue. As root, it gives the attempts' folders mode 0711, so that a user's
// interpreter can open its own script by path if the folders above allow it; everything else in the
// attempts' folders is readable only by root. Errors: kUnavailable if no descriptors are free.
Result<std::unique_ptr<Launcher>> MakeShimLauncher(ShimLauncherOptions options);

}  // namespace carma::task

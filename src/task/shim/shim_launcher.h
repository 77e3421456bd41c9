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
  // A task that takes longer than this to start causes a warning; after start_limit, the shim is
  // killed and the task waits. A start can hang in the user's folders or in the user database.
  base::Duration start_warning{30'000};
  base::Duration start_limit{120'000};
};

// Use the launcher from a single thread only. Destroying it stops the monitoring; shims and tasks
// keep running. As root, gives the attempts' folders mode 0711, so that a user's interpreter can
// open its script by path if the folders above permit this; only root can read anything else in
// these folders. Returns kUnavailable if no file descriptors are available.
Result<std::unique_ptr<Launcher>> MakeShimLauncher(ShimLauncherOptions options);

}  // namespace carma::task

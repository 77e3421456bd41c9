// The real Launcher: one carma-shim per attempt (task/shim/shim_protocol.h, task/shim/shim.h).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "task/process/cgroup.h"
#include "task/shim/launcher.h"

namespace carma::task {

struct ShimLauncherOptions {
  std::string shim_path;  // absolute path of carma-shim
  CgroupBase cgroup;      // FindCgroupBase(); an empty path: tasks get no groups
  // A shim may need so much longer than its grace to stop a task; then it hangs.
  base::Duration hang_margin{10'000};
};

// One thread owns it. Shims outlive it: destroying it stops watching, not the tasks. As root the
// attempts' folders are passable (0711) so that a user's interpreter can open its own script by
// path, where the folders above are passable too; everything else in them is root's alone.
// Errors: kUnavailable: no descriptors for it.
base::Result<std::unique_ptr<Launcher>> MakeShimLauncher(ShimLauncherOptions options);

}  // namespace carma::task

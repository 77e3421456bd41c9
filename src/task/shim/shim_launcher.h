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
  CgroupBase cgroup;      // from FindCgroupBase(); an empty path: no groups
  // A shim that takes this much longer than its grace to stop a task counts as hung.
  base::Duration hang_margin{15'000};
};

// Used by one thread. Shims outlive it: destroying it stops the watching, not the tasks. As root
// the attempts' folders have mode 0711, so that a user's interpreter can open its own script by
// path if the folders above allow it; everything else in them is readable only by root.
// Errors: kUnavailable: no free descriptors.
Result<std::unique_ptr<Launcher>> MakeShimLauncher(ShimLauncherOptions options);

}  // namespace carma::task

// Creates the launcher and sets up the control groups for tasks on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "store/store.h"
#include "task/lease/lease_launcher.h"
#include "task/process/cgroup.h"
#include "task/process/host_facts.h"

namespace carma::daemon {

struct Launching {
  std::unique_ptr<task::LeaseLauncher> launcher;
  task::HostFacts machine;
  task::CgroupControls controls;
  // True if the process limit applies per user rather than per task, because no control group can
  // enforce it.
  bool processes_counted_by_user = false;
  task::CgroupBase groups;           // where the tasks' control groups are created
  std::vector<std::string> limiter;  // EngineOptions::limiter
};
// Tests GPU memory limits by setting one for a temporary group on one GPU. gpu_uuid: empty if no
// GPU responds. Returns why they cannot be set on this machine; empty if they can. Blocks during
// the driver call, for at most a few seconds.
std::string TryMemoryLimits(const task::CgroupBase& groups, const std::vector<std::string>& limiter,
                            const std::string& gpu_uuid);
// Returns the errors of task::MakeShimLauncher() and task::LeaseLauncher::Make().
Result<Launching> OpenLaunching(const config::Settings& settings, const std::string& shim_path);

// Tells the launcher which processes are waiting for leases. The launcher itself finds granted
// leases by their folders.
void WatchWaitingLeases(store::Store& store, task::LeaseLauncher& launcher);

}  // namespace carma::daemon

// Checks everything except GPUs: permissions, groups, disk, clock, settings, the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/gpu_view.h"
#include "api/status_view.h"
#include "base/result.h"
#include "cli/doctor/doctor.h"
#include "config/settings.h"
#include "task/process/cgroup.h"

namespace carma::cli {

// Checks permissions below `root` ("" on a real machine): the pid namespace, other users' hidden
// processes, performance counters that are restricted to administrators, and device files.
std::vector<Finding> CheckRights(const std::string& root, bool is_root, bool simulated);

Finding CheckCgroups(const task::CgroupBase& place, const config::Settings& settings);

struct DiskFacts {
  std::string path;  // the existing folder
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = 0;  // 0 if the file system does not limit files
  bool counts_files = true;
  bool writable = true;  // carmad may write, as far as this process can see
};
Finding CheckDisk(const Result<DiskFacts>& disk);

struct ClockFacts {
  std::int64_t now_ms = 0;  // when the daemon answered
  bool synchronised = true;
  // The daemon's time when it answered; empty unless the daemon runs in real time.
  std::optional<std::int64_t> daemon_ms;
};
Finding CheckClock(const ClockFacts& clock);

// Finds settings that are valid but probably mistaken, and configured programs that are missing
// below `root`. Empty if all is well.
std::vector<Finding> CheckSettings(const std::string& root, const config::Settings& settings);

// Checks that the notifications permitted by notify.allow can be sent: notify.sendmail and, for
// webhooks, curl in carma-notify's search path must exist below `root`. Empty if notifications are
// off.
std::vector<Finding> CheckNotices(const std::string& root, const config::Settings& settings);

// Checks that monitor.kernel_log can be opened below the folder `root`. Empty if it can, or if no
// kernel log is configured.
std::vector<Finding> CheckKernelLog(const std::string& root, const config::Settings& settings);

// Checks that the file named by estimate.profiles (which must be set) is valid and useful for tasks
// on these GPU types. gpu_types may be empty (unknown).
Finding CheckProfiles(const config::Settings& settings, const std::vector<std::string>& gpu_types);

struct DaemonFacts {
  Result<api::StatusView> status;
  std::vector<api::GpuView> gpus;  // from the daemon; empty if there was no answer
  std::int64_t asked_ms = 0;       // this process's time when `status` arrived
  // State folder of the GPUs that carmad --simulate simulates. The configuration does not contain
  // this path. Empty unless the daemon runs with --simulate.
  std::string simulated_state = {};
};
// told: earlier findings; settings that they already report are not reported again.
std::vector<Finding> CheckDaemon(const DaemonFacts& daemon, const std::vector<Finding>& told = {});
// Warns if the daemon reads GPUs that this command does not find with its own settings, and reports
// the daemon's GPU numbers if they differ from the driver's.
std::vector<Finding> CheckSameDriver(const DaemonFacts& daemon, const DriverFacts& driver);

}  // namespace carma::cli

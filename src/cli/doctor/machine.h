// Checks other than those of GPUs: rights, groups, disk, clock, settings, the daemon.
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

// Rights and surroundings, read below `root` ("" on a real machine): pid namespace, hidden
// processes of others, profiling for administrators only, device files.
std::vector<Finding> CheckRights(const std::string& root, bool is_root, bool simulated);

Finding CheckCgroups(const task::CgroupBase& place, const config::Settings& settings);

struct DiskFacts {
  std::string path;  // of the folder that exists
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = 0;  // 0 without limit: the file system has none
  bool counts_files = true;
  bool writable = true;  // by carmad, as far as this process can see
};
Finding CheckDisk(const Result<DiskFacts>& disk);

struct ClockFacts {
  std::int64_t now_ms = 0;  // when the daemon was asked
  bool synchronised = true;
  // The daemon's time at its answer, if it runs in real time.
  std::optional<std::int64_t> daemon_ms;
};
Finding CheckClock(const ClockFacts& clock);

// Valid but unlikely settings, and missing programs that they name, below `root`. Empty if all is
// well.
std::vector<Finding> CheckSettings(const std::string& root, const config::Settings& settings);

// Whether the allowed notifications (notify.allow) can be sent: the program of notify.sendmail, and
// curl in carma-notify's search path; below `root`. Empty without notifications.
std::vector<Finding> CheckNotices(const std::string& root, const config::Settings& settings);

// Whether root may read monitor.kernel_log, below `root`. Empty if so, or if it is not used.
std::vector<Finding> CheckKernelLog(const std::string& root, const config::Settings& settings);

// Whether the file of estimate.profiles (which must be set) is valid and useful for tasks on these
// GPU types. No types: unknown.
Finding CheckProfiles(const config::Settings& settings, const std::vector<std::string>& gpu_types);

struct DaemonFacts {
  Result<api::StatusView> status;
  std::vector<api::GpuView> gpus;  // from the daemon; empty: no answer
  std::int64_t asked_ms = 0;       // this process's time when `status` came
  // The simulated GPUs of carmad --simulate, which no configuration names; empty: others.
  std::string simulated_state = {};
};
// told: earlier findings; what those about settings say is not repeated.
std::vector<Finding> CheckDaemon(const DaemonFacts& daemon, const std::vector<Finding>& told = {});
// A warning if the daemon reads GPUs that this command does not find with its settings.
std::vector<Finding> CheckSameDriver(const DaemonFacts& daemon, const DriverFacts& driver);

}  // namespace carma::cli

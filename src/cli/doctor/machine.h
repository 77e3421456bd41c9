// Checks of what surrounds the GPUs: rights, groups, disk, clock, settings, the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/views.h"
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
  std::uint64_t free_files = 0;  // 0 with no limit: the file system counts none
  bool counts_files = true;
  bool writable = true;  // to carmad, as far as this process can tell
};
Finding CheckDisk(const base::Result<DiskFacts>& disk);

struct ClockFacts {
  std::int64_t now_ms = 0;
  bool synchronised = true;
  // The daemon's time when it was asked, if it runs in real time.
  std::optional<std::int64_t> daemon_ms;
};
Finding CheckClock(const ClockFacts& clock);

// Settings that are valid and yet unlikely to be meant, and programs that they name, below `root`.
// Nothing where all is well.
std::vector<Finding> CheckSettings(const std::string& root, const config::Settings& settings);

// Whether people can be told as they may ask for (notify.allow): the program of notify.sendmail,
// and curl in the folders where carma-notify looks; below `root`. Nothing where nobody is told.
std::vector<Finding> CheckNotices(const std::string& root, const config::Settings& settings);

// Whether root may read monitor.kernel_log, below `root`. Nothing where it may, or is not used.
std::vector<Finding> CheckKernelLog(const std::string& root, const config::Settings& settings);

// The file of estimate.profiles, which must be named: whether it reads and is of use to tasks on
// GPUs of these types. No types: they are not known.
Finding CheckProfiles(const config::Settings& settings, const std::vector<std::string>& gpu_types);

struct DaemonFacts {
  base::Result<api::StatusView> status;
  std::vector<api::GpuView> gpus;  // as the daemon sees them; empty where it does not answer
};
std::vector<Finding> CheckDaemon(const DaemonFacts& daemon);
// A warning if the daemon reads GPUs that this command, by its settings, does not find.
std::vector<Finding> CheckSameDriver(const DaemonFacts& daemon, const DriverFacts& driver);

}  // namespace carma::cli

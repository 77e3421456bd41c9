// What `carma doctor` looks at, and what it makes of it. Checks are functions of facts; gathering
// the facts stands apart, so that tests need no GPU, no root and no broken machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/views.h"
#include "base/result.h"
#include "cli/terminal.h"
#include "config/settings.h"
#include "gpu/nvml_probe.h"
#include "gpu/probe.h"
#include "task/cgroup.h"

namespace carma::cli {

enum class Level {
  kOk,
  kWarn,  // CARMA works, with less than it could
  kBad,   // something will not work
};
std::string_view LevelName(Level level);  // "ok", "warn", "bad"

struct Finding {
  std::string topic;  // "driver", "gpu 0", "rights" …
  Level level = Level::kOk;
  std::string text;    // one line
  std::string remedy;  // what to do, one line; empty for kOk
};

struct GpuFacts {
  gpu::DeviceInfo info;
  base::Result<gpu::Reading> reading;
};

struct DriverFacts {
  base::Result<gpu::DriverVersions> versions;
  base::Result<std::vector<GpuFacts>> gpus;
  std::string dcgm_trouble;
  bool simulated = false;
  bool hangs = false;  // it did not answer in time; `versions` says so
};

// Versions of driver and library, or why there are none; then one or more findings per GPU: what is
// read from whom, by which rule tasks come to share it, and its condition.
std::vector<Finding> CheckDriver(const DriverFacts& facts, const config::Settings& settings);

// Rights and surroundings, read below `root` ("" on a real machine): pid namespace, hidden
// processes of others, profiling for administrators only, device files.
std::vector<Finding> CheckRights(const std::string& root, bool is_root, bool simulated);

// The MPS control daemon in the configured directory, below `root`.
Finding CheckMps(const std::string& root, const config::Settings& settings);

Finding CheckCgroups(const task::CgroupBase& place, const config::Settings& settings);

struct DiskFacts {
  std::string path;  // of the folder that exists
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = 0;  // 0 with no limit: the file system counts none
  bool counts_files = true;
};
Finding CheckDisk(const base::Result<DiskFacts>& disk);

struct ClockFacts {
  std::int64_t now_ms = 0;
  bool synchronised = true;
  // The daemon's time when it was asked, if it runs in real time.
  std::optional<std::int64_t> daemon_ms;
};
Finding CheckClock(const ClockFacts& clock);

std::vector<Finding> CheckDaemon(const base::Result<api::StatusView>& status,
                                 const std::string& socket_path);

// One line per finding, its remedy below it; the worst is said last.
std::string DoctorText(const std::vector<Finding>& findings, const Screen& screen);
// {"worst":"warn","findings":[{"topic","level","text","remedy"}],"gpus":[{"uuid","name","pci",
// "activity":"gpm","counters":[names of what it counts],"values":[names of what else is told]}]}.
std::string DoctorJson(const std::vector<Finding>& findings, const DriverFacts& facts);
Level Worst(const std::vector<Finding>& findings);

}  // namespace carma::cli

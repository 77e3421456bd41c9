// Measures how busy the machine's cores are and which tasks use them.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/scheduler/events.h"

namespace carma::daemon {

class CoreMeter {
 public:
  // proc: mount point of procfs.
  explicit CoreMeter(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Returns means over the last ten seconds, or nothing on the first call or if `proc` cannot be
  // read. Must be called every few seconds. Reads two files for each process of a task, which takes
  // 8 ms for 16 tasks with 17 processes of 30 threads each. mains: the first process of each task.
  // Descendants count only if their parent's main thread started them.
  std::optional<core::HostSampled> Read(base::Time now, const std::map<core::TaskId, pid_t>& mains);

 private:
  struct Reading {
    base::Time when{};
    double busy_s = 0;                       // sum over all cores since boot
    std::map<core::TaskId, double> tasks_s;  // used by running processes and their reaped children
  };
  std::optional<Reading> Look(base::Time now, const std::map<core::TaskId, pid_t>& mains);
  double TreeS(pid_t root) const;

  std::string proc_;
  int cpus_ = 0;
  std::deque<Reading> readings_;
};

}  // namespace carma::daemon

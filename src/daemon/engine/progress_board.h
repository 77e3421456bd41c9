// Collects the progress that the shims of running tasks write to their attempts' folders.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/scheduler/events.h"
#include "core/values/ids.h"
#include "task/progress/report.h"

namespace carma::daemon {

// Converts times reported by shims, which use the system clock, to the server's time. The clock of
// a simulated server runs `scale` times as fast.
struct ProgressClocks {
  std::int64_t system_ms = 0;  // the same moment on both clocks
  std::int64_t server_ms = 0;
  double scale = 1;
  std::int64_t ToServer(std::int64_t ms) const;
};

class ProgressBoard {
 public:
  // An attempt and the folder that its progress is read from.
  struct Place {
    core::TaskId id{};
    int attempt = 0;
    bool holds_gpus = false;
    std::string dir;
  };
  struct Seen {
    Place place;
    task::ProgressReport report;
    bool moved = false;  // its counters have changed since the last reading
  };
  // Reads a few hundred bytes for each attempt, so it must be called on a worker. now_ms: the
  // system time.
  static std::vector<Seen> Read(const std::vector<Place>& places, std::int64_t now_ms);

  // Replaces all known progress. Returns the tasks that have stalled since the last call.
  std::vector<core::TaskId> Take(std::vector<Seen> seen, const ProgressClocks& clocks = {});
  // The estimated remaining time of each attempt whose progress has changed since the last reading.
  // now_ms: the server's time.
  core::ProgressSeen Left(std::int64_t now_ms) const;
  // The last report of the attempt; null if it has not reported.
  const task::ProgressReport* Find(core::TaskId id, int attempt) const;

 private:
  std::map<core::TaskId, Seen> seen_;
};

}  // namespace carma::daemon

// The progress of running tasks, as written by their shims to the attempts' folders.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/scheduler/events.h"
#include "core/values/ids.h"
#include "task/progress/report.h"

namespace carma::daemon {

class ProgressBoard {
 public:
  // An attempt whose folder must be read.
  struct Place {
    core::TaskId id{};
    int attempt = 0;
    bool holds_gpus = false;
    std::string dir;
  };
  struct Seen {
    Place place;
    task::ProgressReport report;
    bool moved = false;  // its counters have changed since the time before
  };
  // Reads a few hundred bytes of each; for a worker. now_ms: the system's clock.
  static std::vector<Seen> Read(const std::vector<Place>& places, std::int64_t now_ms);

  // Replaces all known progress. shift_ms: how far the (perhaps simulated) server's clock is ahead
  // of the system's. Returns the tasks that have stalled since.
  std::vector<core::TaskId> Take(std::vector<Seen> seen, std::int64_t shift_ms = 0);
  // The time until the likely end of each attempt that has reported progress. now_ms: the server's
  // time.
  core::ProgressSeen Left(std::int64_t now_ms) const;
  // The last report of the attempt; null: it has reported none.
  const task::ProgressReport* Find(core::TaskId id, int attempt) const;

 private:
  std::map<core::TaskId, Seen> seen_;
};

}  // namespace carma::daemon

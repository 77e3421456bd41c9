// The progress of running tasks, as their shims leave it in their attempts' folders.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/values/task.h"
#include "task/progress/report.h"

namespace carma::daemon {

class ProgressBoard {
 public:
  // An attempt whose folder is to be read.
  struct Place {
    core::TaskId id{};
    int attempt = 0;
    bool holds_gpus = false;
    std::string dir;
  };
  struct Seen {
    Place place;
    task::ProgressReport report;
  };
  // Reads a few hundred bytes of each; for a worker. now_ms: the system's clock.
  static std::vector<Seen> Read(const std::vector<Place>& places, std::int64_t now_ms);

  // Takes the place of all that was known. shift_ms: how far the clock of the server, which may be
  // a simulated one, is ahead of the system's. Returns the tasks that have stalled since.
  std::vector<core::TaskId> Take(std::vector<Seen> seen, std::int64_t shift_ms = 0);
  // Null: the attempt has shown none.
  const task::ProgressReport* Find(core::TaskId id, int attempt) const;

 private:
  std::map<core::TaskId, Seen> seen_;
};

}  // namespace carma::daemon

// Snapshots of the queues, kept while a client reads them page by page: each task appears once, in
// the order of the first page, although the queues move on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/scheduler/scheduler.h"

namespace carma::daemon {

// All queued tasks in order: first those with GPUs, then those without.
class ToldLine {
 public:
  ToldLine(std::vector<core::TaskId> tasks, base::Time told);
  const std::vector<core::TaskId>& tasks() const { return tasks_; }
  // Position in tasks(); empty: not in it.
  std::optional<std::size_t> PlaceOf(core::TaskId task) const;
  base::Time told() const { return told_; }

 private:
  std::vector<core::TaskId> tasks_;
  std::vector<std::uint32_t> by_task_;  // places in tasks_, sorted by task; empty if tasks_ is
  base::Time told_;
};

// Snapshots of the last few lists that have more pages, kept for a while.
class QueueSnapshots {
 public:
  // Keeps the snapshot of a list whose page ended with that task.
  void Keep(std::shared_ptr<const ToldLine> line, core::TaskId ended_with);
  // Remembers the latest snapshot while it is in use.
  void Remember(const std::shared_ptr<const ToldLine>& line);
  // The latest snapshot, if it is recent, for a new list; else null.
  std::shared_ptr<const ToldLine> Fresh(base::Time now) const;
  // The snapshot for the page after that task: that of the list whose page ended with it, else the
  // last one that contains it; null: none is kept. now: never goes back.
  std::shared_ptr<const ToldLine> Behind(core::TaskId task, base::Time now);

 private:
  struct Kept {
    std::shared_ptr<const ToldLine> line;
    core::TaskId ended_with{};
  };
  std::weak_ptr<const ToldLine> last_;
  std::vector<Kept> kept_;  // most recently used last
};

}  // namespace carma::daemon

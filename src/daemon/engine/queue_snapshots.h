// Keeps snapshots of the queues for clients that list them page by page. Even if the queues change
// meanwhile, a list contains each task once, in the order at the time of the first page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/scheduler/scheduler.h"

namespace carma::daemon {

// All queued tasks in order: tasks with GPUs first, then tasks without GPUs.
class ToldLine {
 public:
  ToldLine(std::vector<core::TaskId> tasks, base::Time told);
  const std::vector<core::TaskId>& tasks() const { return tasks_; }
  // The task's position in tasks(); empty if it is not in the list.
  std::optional<std::size_t> PlaceOf(core::TaskId task) const;
  base::Time told() const { return told_; }

 private:
  std::vector<core::TaskId> tasks_;
  std::vector<std::uint32_t> by_task_;  // positions in tasks_, sorted by task id
  base::Time told_;
};

// Keeps recent snapshots for a while, so that clients can finish reading their lists.
class QueueSnapshots {
 public:
  // Keeps the snapshot for a list. ended_with: the last task on the page that was returned.
  void Keep(std::shared_ptr<const ToldLine> line, core::TaskId ended_with);
  // Remembers the latest snapshot for Fresh(), but only while some list still uses it.
  void Remember(const std::shared_ptr<const ToldLine>& line) { last_ = line; }
  // The latest snapshot if it is recent enough for a new list, otherwise null.
  std::shared_ptr<const ToldLine> Fresh(base::Time now) const;
  // Returns the snapshot for the page that begins after this task; null if there is none. Prefers
  // the snapshot whose last page ended with this task; otherwise, the latest one that contains the
  // task. now: must never decrease.
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

// Keeps snapshots of the queues while clients read them page by page, so that each task appears
// once, in the order of the first page, although the queues change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/scheduler/scheduler.h"

namespace carma::daemon {

// All queued tasks in order: first tasks with GPUs, then tasks without.
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

// The snapshots of the last few lists that have further pages, kept for a while.
class QueueSnapshots {
 public:
  // Keeps the snapshot of a list whose last returned page ended with that task.
  void Keep(std::shared_ptr<const ToldLine> line, core::TaskId ended_with);
  // Records the latest snapshot, which Fresh may return as long as some list uses it.
  void Remember(const std::shared_ptr<const ToldLine>& line);
  // The latest snapshot if it is recent enough for a new list, else null.
  std::shared_ptr<const ToldLine> Fresh(base::Time now) const;
  // The snapshot for the page that begins after that task: the snapshot of the list whose page
  // ended with the task, else the latest that contains the task; null if there is none. now: never
  // goes back.
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

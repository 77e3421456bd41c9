// The lines as they were when somebody began to list them, so that he may turn pages while they
// move on: each task that stood in them comes once, in that order.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/scheduler/scheduler.h"

namespace carma::daemon {

// Those with GPUs, then those without, the first one first.
class ToldLine {
 public:
  ToldLine(std::vector<core::TaskId> tasks, base::Time told);
  const std::vector<core::TaskId>& tasks() const { return tasks_; }
  // In tasks(); empty: it does not stand there.
  std::optional<std::size_t> PlaceOf(core::TaskId task) const;
  base::Time told() const { return told_; }

 private:
  std::vector<core::TaskId> tasks_;
  std::vector<std::pair<core::TaskId, std::size_t>> places_;  // by task
  base::Time told_;
};

// Those of the last few lists that have further pages, for a while.
class QueueSnapshots {
 public:
  // Of a list whose page ended with that task.
  void Keep(std::shared_ptr<const ToldLine> line, core::TaskId ended_with);
  // The last one that was found, while anybody holds it.
  void Remember(const std::shared_ptr<const ToldLine>& line);
  // That one, if it was told a moment ago: for lists that begin; else null.
  std::shared_ptr<const ToldLine> Fresh(base::Time now) const;
  // For the page behind that task: of the list whose page ended with it, else the last one in which
  // it stands; null: none is kept. now: never goes back.
  std::shared_ptr<const ToldLine> Behind(core::TaskId task, base::Time now);

 private:
  struct Kept {
    std::shared_ptr<const ToldLine> line;
    core::TaskId ended_with{};
  };
  std::weak_ptr<const ToldLine> last_;
  std::vector<Kept> kept_;  // the one asked for last at the end
};

}  // namespace carma::daemon

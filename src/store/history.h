// Reads the database on another thread while the daemon writes to it. Intended for reads that take
// a long time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace carma::store {

// Receives one row. Returns false to stop reading.
template <class Row>
using TakeRow = std::function<bool(const Row&)>;

// A consistent view of the database as it was at Open(). Does not block the writer, but the
// writer's log grows while the view is open. Every call blocks on the disk, so only worker threads
// may use a view, one at a time. Rows are passed one by one, so memory usage does not depend on
// their number.
class History {
 public:
  // Opens the database of the Store that is open in `state_dir`. Fails with kIo or kNotFound.
  static Result<std::unique_ptr<History>> Open(const std::string& state_dir);
  ~History();

  struct Span {
    core::Time submitted_from = core::Time::min();  // inclusive
    core::Time submitted_to = core::Time::max();    // inclusive
    std::optional<std::int64_t> newest;             // at most this many, those with the highest ids
  };
  Result<std::int64_t> CountTasks(const Span& span);
  // Calls `take` for each task in order of id. The tasks come without their descriptions: spec_json
  // and the paths are empty, and gid is 0.
  Result<Unit> Tasks(const Span& span, const TakeRow<StoredTask>& take);
  // Calls `take` for each event of the tasks from `first` to `last`, ordered by task and then by
  // time.
  Result<Unit> Events(core::TaskId first, core::TaskId last, const TakeRow<StoredEvent>& take);
  // Calls `take` for each attempt that overlaps [from, to), ordered by end time.
  Result<Unit> Attempts(core::Time from, core::Time to, const TakeRow<EndedAttempt>& take);
  // These call `take` for each row that overlaps [from, to), ordered by time.
  Result<Unit> Usage(core::Time from, core::Time to, const TakeRow<GpuUsage>& take);
  Result<Unit> LineWaits(core::Time from, core::Time to, const TakeRow<LineWait>& take);

 private:
  History();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carma::store

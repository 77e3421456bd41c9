// The daemon's books as a run: rows of the store, page by page, become a record.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/values/task.h"
#include "report/run.h"
#include "store/store.h"

namespace carma::report {

// Fed with all tasks of the run first, then with their events and the use of the GPUs, each in the
// order of the store. What belongs to no known task is passed over, so whole pages may be handed
// in.
class StoreRun {
 public:
  // Times are cut at `now`; a process that still lives is unfinished then.
  explicit StoreRun(core::Time now) : now_(now) {}

  void Add(const store::StoredTask& task);
  // Changes of state only; others are passed over. An attempt lasts from "running" to the next
  // state that is neither running nor stopping.
  void Add(const store::StoredEvent& event);
  // Tells all GPUs of an attempt that the events have told of, and what it was promised. Without it
  // its first GPU is known, and of the last attempt those that the task's row names.
  void Add(const store::EndedAttempt& attempt);
  // Spans of one GPU in order of time; what lies outside the run is passed over, spans without any
  // row are holes.
  void Add(const store::GpuUsage& usage);
  // What lies outside the run is passed over.
  void Add(const store::LineWait& wait);
  // Names the GPU and says how large it is; one that nobody names is called by its UUID.
  void NameGpu(const std::string& uuid, std::string name, std::string type,
               std::int64_t usable_mib);

  std::size_t tasks() const { return run_.tasks.size(); }
  // The span of the run: from the first submission to the last end, or to `now` while a task is not
  // final. Both `now` without tasks.
  core::Time from() const { return first_.value_or(now_); }
  core::Time to() const { return last_.value_or(now_); }
  // Ends the record; nothing may be added afterwards. Label and provenance are the caller's.
  RunRecord Finish();

 private:
  // What the rows of one task say beyond its RunTask.
  struct Life {
    std::size_t task = 0;  // in run_.tasks
    bool running = false;  // its last attempt is open
    bool stopping = false;
    int ooms = 0;
    std::optional<core::Time> started;
    std::vector<int> last_gpus;
    std::vector<store::EndedAttempt> attempts;
  };
  int GpuOf(const std::string& uuid);
  void Step(Life& life, const store::StoredEvent& event, core::TaskState state);
  void Settle(const Life& life);
  void MarkCrashes(const Life& life);
  void TellPromises(const Life& life);

  core::Time now_;
  RunRecord run_;
  std::optional<core::Time> first_, last_;
  // Each life touches its own task only, so the order of the map cannot be seen.
  std::unordered_map<std::uint64_t, Life> lives_;         // by task id
  std::map<std::string, int> gpus_;                       // by UUID
  std::vector<std::optional<core::Time>> covered_until_;  // of each GPU's points
};

}  // namespace carma::report

// Builds a run's record from rows of the store, page by page.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/values/ids.h"
#include "core/values/task_state.h"
#include "report/run.h"
#include "store/store.h"

namespace carma::report {

// Builds a run's record from rows of the store. Add all tasks first, then their events and the GPU
// usage, each in store order. Rows of unknown tasks are ignored, so whole pages can be added.
class StoreRun {
 public:
  // Everything after `now` is ignored. A process that is still running at `now` counts as
  // unfinished.
  explicit StoreRun(core::Time now) : now_(now) {}

  void Add(const store::StoredTask& task);
  // Uses state changes and the requeues of ended tasks, and ignores other events. An attempt lasts
  // from "running" to the next state that is neither running nor stopping.
  void Add(const store::StoredEvent& event);
  // Adds the end, the GPUs and the promised memory of an attempt. Events list only the first GPU of
  // an attempt, and the task's row only the GPUs of the last attempt.
  void Add(const store::EndedAttempt& attempt);
  // Usage of the same GPU must be added in chronological order. Usage outside the run is ignored,
  // and time without usage becomes a gap.
  void Add(const store::GpuUsage& usage);
  // Rows outside the run are ignored.
  void Add(const store::LineWait& wait);
  // Sets the GPU's name, type and size. Its name is its UUID by default.
  void NameGpu(const std::string& uuid, std::string name, std::string type,
               std::int64_t usable_mib);

  std::size_t tasks() const { return run_.tasks.size(); }
  // The span of the run, from the first submission to the last end. If a task is unfinished, the
  // span ends at `now`. Both ends are `now` if there are no tasks.
  core::Time from() const { return first_.value_or(now_); }
  core::Time to() const { return last_.value_or(now_); }
  // Completes the record. Nothing may be added after this call. The caller sets label and
  // provenance.
  RunRecord Finish();

 private:
  // Data about a task that is not in its RunTask.
  struct Life {
    std::size_t task = 0;  // in run_.tasks
    bool running = false;  // its last attempt has not ended
    bool stopping = false;
    std::optional<core::Time> ended;  // until it is requeued
    int ooms = 0;
    std::optional<core::Time> started;
    std::vector<int> last_gpus;
    std::vector<store::EndedAttempt> attempts;
  };
  int GpuOf(const std::string& uuid);
  void Requeue(Life& life, core::Time when);
  void Step(Life& life, const store::StoredEvent& event, core::TaskState state);
  void Settle(const Life& life);
  void MarkCrashes(const Life& life);
  void TakeAccounts(const Life& life);
  void PutInOrder(RunTask& task);

  core::Time now_;
  RunRecord run_;
  std::optional<core::Time> first_, last_;
  // The entries are independent of each other, so the map's order has no effect.
  std::unordered_map<std::uint64_t, Life> lives_;         // by task id
  std::map<std::string, int> gpus_;                       // by UUID
  std::vector<std::optional<core::Time>> covered_until_;  // the end of each GPU's points
};

}  // namespace carma::report

// Tracks tasks that wait for other tasks to end.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/values/ids.h"
#include "core/values/reason.h"
#include "core/values/task_request.h"
#include "core/values/task_state.h"

namespace carma::core {

// True if all dependencies of the task are met. `tasks` holds all tasks that have not ended.
bool DependenciesMet(const TaskRecord& task, const TaskRecords& tasks);
// The first unmet dependency as a reason for waiting; empty if all are met.
std::optional<Reason> UnmetDependency(const TaskRecord& task, const TaskRecords& tasks);
// The first dependency that can never be met: the other task ended differently or never existed.
std::optional<Reason> NeverMetDependency(const TaskRecord& task, const TaskRecords& tasks);
// Like NeverMetDependency, but for a task that is not submitted yet. Checks only dependencies with
// a known_final, because `TaskRecords` might not yet contain a task that has just been accepted.
std::optional<Reason> NeverMetByEnds(std::vector<Dependency> dependencies);

// Fills in Dependency::known_final of waiting tasks when a task that they depend on ends. If the
// ended task is requeued, dependent tasks that have not started wait for it to end again.
class Dependencies {
 public:
  // Adds a new task, whose dependencies are looked up by the next Register.
  void Arrive(TaskId id) { arrivals_.push_back(id); }
  // Like Arrive, but for a task that may have already ended once.
  void Return(TaskId id) {
    Arrive(id);
    returned_ = true;
  }
  // Looks up the dependencies of the added tasks so that End can record how they ended. Also sets
  // known_final of dependencies that ended since the last Close, because a task and its dependency
  // may arrive and end in the same batch of events. Returns the tasks whose dependencies may have
  // changed.
  std::vector<TaskId> Register(TaskRecords& tasks);
  bool AllRegistered() const { return arrivals_.empty(); }

  // Reports that a task has ended. It must no longer be in `tasks`. Returns the tasks that were
  // waiting for it.
  std::vector<TaskId> End(TaskId id, TaskState state, TaskRecords& tasks);
  // Forgets the recorded ends; tasks that arrive later do not need them.
  void Close() { ended_.clear(); }

 private:
  std::map<TaskId, std::vector<TaskId>> dependents_;
  std::vector<TaskId> arrivals_;
  bool returned_ = false;              // a task was returned since the last Register
  std::map<TaskId, TaskState> ended_;  // ends since the last Close
};

}  // namespace carma::core

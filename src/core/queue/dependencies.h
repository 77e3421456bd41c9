// Which tasks wait for the end of which others.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/values/task.h"

namespace carma::core {

// Whether the task may start as far as its dependencies go. `tasks` are those that have not ended.
bool DependenciesMet(const TaskRecord& task, const TaskRecords& tasks);
// The first dependency that is not met, as the reason to wait; empty: all are.
std::optional<Reason> UnmetDependency(const TaskRecord& task, const TaskRecords& tasks);
// The first that can never be met: its task ended otherwise, or was never there.
std::optional<Reason> NeverMetDependency(const TaskRecord& task, const TaskRecords& tasks);

// Fills in Dependency::known_final of those who wait, as what they wait for ends.
class Dependencies {
 public:
  // A task has come; the next Register looks up what it waits for.
  void Arrive(TaskId id) { arrivals_.push_back(id); }
  // From here on those who have arrived are told. What ended since the last Close counts too: a
  // task and what it waits for may come and end in one batch of events.
  void Register(TaskRecords& tasks);
  bool AllRegistered() const { return arrivals_.empty(); }

  // A task has ended and is no longer among `tasks`. Returns those of them that waited for it.
  std::vector<TaskId> End(TaskId id, TaskState state, TaskRecords& tasks);
  // Ends told until now are told to nobody who comes later.
  void Close() { ended_.clear(); }

 private:
  std::map<TaskId, std::vector<TaskId>> dependents_;
  std::vector<TaskId> arrivals_;
  std::map<TaskId, TaskState> ended_;  // since the last Close
};

}  // namespace carma::core

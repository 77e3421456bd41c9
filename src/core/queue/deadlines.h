// Tracks when running tasks reach their time limits and when they must be warned.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "core/values/ids.h"

namespace carma::core {

class Deadlines {
 public:
  // Starts watching a running task. Run time counts from Attempt::started. Ignores tasks without a
  // time limit.
  void Watch(const TaskRecord& task);
  // Stops watching the task. Does nothing if it is not watched. Call it before the task's attempt
  // ends, because the entry is found by the attempt's start time.
  void Forget(const TaskRecord& task);

  // The first task, by time and id, whose time is up. The same task is returned until Forget is
  // called for it.
  std::optional<TaskId> Expired(Time now) const;
  // The first task whose warning (TaskRequest::signal_before) is due but not yet sent
  // (Attempt::warned). Returns the same task until Forget removes it or Watch is called for it with
  // Attempt::warned set.
  std::optional<TaskId> ToWarn(Time now) const;
  std::optional<Time> Next() const;

  bool Watches(const TaskRecord& task) const;
  std::size_t size() const { return times_.size(); }

 private:
  std::set<std::pair<Time, TaskId>> times_;
  std::set<std::pair<Time, TaskId>> warnings_;
};

}  // namespace carma::core

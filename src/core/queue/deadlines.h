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
  // Starts to watch a running task. Its time counts from Attempt::started. A task without a time
  // limit is ignored.
  void Watch(const TaskRecord& task);
  // Stops watching the task; harmless if it is not watched. Call it before its attempt ends,
  // because the entry is found by the attempt's start.
  void Forget(const TaskRecord& task);

  // The first task, by time and id, whose time is up. It is returned until Forget.
  std::optional<TaskId> Expired(Time now) const;
  // The first task whose warning (TaskRequest::signal_before) is due and has not been sent
  // (Attempt::warned). It is returned until Forget, or until Watch is called again with
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

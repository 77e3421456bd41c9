// The time limits of running tasks, and when to warn them.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "core/values/ids.h"

namespace carma::core {

class Deadlines {
 public:
  // Starts to watch a running task, whose time counts from Attempt::started. A task without limit
  // is ignored.
  void Watch(const TaskRecord& task);
  // Stops watching the task; harmless if it is not watched. Call it before its attempt ends,
  // because the entry is found by the attempt's start.
  void Forget(const TaskRecord& task);

  // The first task whose time is up, by time and id; it is returned until Forget.
  std::optional<TaskId> Expired(Time now) const;
  // The first task whose warning (TaskRequest::signal_before) is due and has not been sent
  // (Attempt::warned); it is returned until Forget, or until it is watched again as warned.
  std::optional<TaskId> ToWarn(Time now) const;
  std::optional<Time> Next() const;

  bool Watches(const TaskRecord& task) const;
  std::size_t size() const { return times_.size(); }

 private:
  std::set<std::pair<Time, TaskId>> times_;
  std::set<std::pair<Time, TaskId>> warnings_;
};

}  // namespace carma::core

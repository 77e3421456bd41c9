// The time limits of running tasks, and when they are told that their limits come.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "core/values/task.h"

namespace carma::core {

class Deadlines {
 public:
  // A task runs (Attempt::started tells since when). One without limit is passed over.
  void Watch(const TaskRecord& task);
  // Its limit no longer counts; harmless if it is not watched. To be told before its attempt is
  // over: the start is part of what is looked for.
  void Forget(const TaskRecord& task);

  // The first task whose time is up, by time and id; it stays until it is forgotten.
  std::optional<TaskId> Expired(Time now) const;
  // The first that is to be told (TaskRequest::signal_before) and has not been (Attempt::warned);
  // it stays until it is forgotten, or watched again as told.
  std::optional<TaskId> ToWarn(Time now) const;
  std::optional<Time> Next() const;

  bool Watches(const TaskRecord& task) const;
  std::size_t size() const { return times_.size(); }

 private:
  std::set<std::pair<Time, TaskId>> times_;
  std::set<std::pair<Time, TaskId>> warnings_;
};

}  // namespace carma::core

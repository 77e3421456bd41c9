// The time limits of running tasks.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "core/task.h"

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
  std::optional<Time> Next() const;

  bool Watches(const TaskRecord& task) const;
  std::size_t size() const { return times_.size(); }

 private:
  std::set<std::pair<Time, TaskId>> times_;
};

}  // namespace carma::core

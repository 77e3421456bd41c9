// Array tasks with a limit (%N): which may queue or run, and which wait for one of these places.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "core/values/ids.h"

namespace carma::core {

class Arrays {
 public:
  struct Places {
    std::set<TaskId> admitted;
    std::set<TaskId> waiting;  // in order of submission
  };

  // True: the task now has a place of its array, or needs none. False: it waits for one.
  bool Admit(const TaskRecord& task);
  // The task no longer runs, queues or waits for a place.
  void Leave(const TaskRecord& task);
  // The first task of this task's array that waits although a place is free; empty: none does.
  std::optional<TaskId> Next(const TaskRecord& task) const;

  // The arrays by their first task; those without admitted or waiting tasks are dropped.
  const std::map<TaskId, Places>& all() const { return arrays_; }

 private:
  std::map<TaskId, Places> arrays_;
};

}  // namespace carma::core

// Tracks arrays with a limit (%N): which of their tasks may queue or run, and which tasks must wait
// until another task of the array ends.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "core/values/ids.h"

namespace carma::core {

class Arrays {
 public:
  // An admitted task has one of the array's N places.
  struct Places {
    std::set<TaskId> admitted;
    std::set<TaskId> waiting;  // in order of submission
  };

  // Returns true if the task has a place in its array or needs none. Returns false if it must wait
  // for a place.
  bool Admit(const TaskRecord& task);
  // Called when the task is no longer running, queued or waiting for a place.
  void Leave(const TaskRecord& task);
  // The first task in the same array that is waiting even though a place is free; empty: none.
  std::optional<TaskId> Next(const TaskRecord& task) const;

  // The arrays by the id of their first task. Arrays without admitted or waiting tasks are dropped.
  const std::map<TaskId, Places>& all() const { return arrays_; }

 private:
  std::map<TaskId, Places> arrays_;
};

}  // namespace carma::core

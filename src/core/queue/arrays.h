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
  // An admitted task holds one of the array's N places.
  struct Places {
    std::set<TaskId> admitted;
    std::set<TaskId> waiting;  // in order of submission
  };

  // Returns true if the task holds a place in its array or needs none, false if it must wait for
  // one.
  bool Admit(const TaskRecord& task);
  // Called when the task is no longer running, queued or waiting for a place.
  void Leave(const TaskRecord& task);
  // The first task waiting for a place in the same array, or empty if none is waiting or no place
  // is free.
  std::optional<TaskId> Next(const TaskRecord& task) const;

  // The arrays by the id of their first task. Arrays without admitted or waiting tasks are dropped.
  const std::map<TaskId, Places>& all() const { return arrays_; }

 private:
  std::map<TaskId, Places> arrays_;
};

}  // namespace carma::core

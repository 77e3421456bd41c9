// Arrays of tasks with a limit: who may stand in line or run, and who waits for a place among them.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "core/values/task.h"

namespace carma::core {

class Arrays {
 public:
  struct Places {
    std::set<TaskId> admitted;
    std::set<TaskId> waiting;  // in order of submission
  };

  // True: the task has a place among those of its array from here on, or needs none. False: it
  // waits for one.
  bool Admit(const TaskRecord& task);
  // The task neither runs nor stands in line any more, nor waits for a place. Returns who is to be
  // admitted in its stead; empty: nobody waits, or it had no place.
  std::optional<TaskId> Leave(const TaskRecord& task);

  // By the first task of the array; those without admitted and waiting tasks are forgotten.
  const std::map<TaskId, Places>& all() const { return arrays_; }

 private:
  std::map<TaskId, Places> arrays_;
};

}  // namespace carma::core

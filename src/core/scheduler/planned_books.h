// The limits and the machine's cores and memory, as changed by planned starts and departures.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

class PlannedBooks {
 public:
  // At first, the plan contains the running tasks, except those that are being stopped.
  explicit PlannedBooks(const State& state);

  void Leave(const TaskRecord& task);
  bool IsLimited(const State& state, const TaskRecord& waiting, const Need& need) const;
  // Starts the waiting task in the plan. Returns false if a lack of cores or memory would keep it
  // from starting. Limits are not checked.
  bool Start(const State& state, const TaskRecord& waiting, const Need& need);

 private:
  Limits limits_;
  HostBooks host_;
};

}  // namespace carma::core

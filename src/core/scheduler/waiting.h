// Which waiting tasks are considered, and which wait for something other than GPUs.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Gives unsorted tasks their places, many of them in steps.
void SortWaiting(State& state);
// Queue::Put for a task that may have changed since it was considered.
void PutInQueue(State& state, const TaskRecord& task, Place place, Time due, Time waits_since);
// Passes on its place in its array.
void LeaveArray(State& state, const TaskRecord& task);
Time EarliestStart(const TaskRecord& task);
// When time alone may change the order; empty: never.
std::optional<Time> NextOrder(const State& state);
void AskForWake(State& state);

}  // namespace carma::core

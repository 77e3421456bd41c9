// Decides which waiting tasks are considered, and which wait for something other than GPUs.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Gives unsorted tasks their places in the queue; if there are many, in several steps.
void SortWaiting(State& state);
// Calls Queue::Put for a task that may have changed since it was last considered.
void PutInQueue(State& state, const TaskRecord& task, Place place, Time due, Time waits_since);
// Passes the task's place in its array on to the next task of the array.
void LeaveArray(State& state, const TaskRecord& task);
Time EarliestStart(const TaskRecord& task);
// When the passing of time may next change the order of the queue; empty: never.
std::optional<Time> NextOrder(const State& state);
void AskForWake(State& state);

}  // namespace carma::core

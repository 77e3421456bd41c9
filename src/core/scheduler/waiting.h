// Decides which waiting tasks are considered for a start, and which wait for something other than
// GPUs.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Assigns unsorted tasks their places in the queue. Takes several steps if there are many tasks.
void SortWaiting(State& state);
// Calls Queue::Put. The task may have changed, so the next pass considers it again even if it was
// refused before.
void PutInQueue(State& state, const TaskRecord& task, Place place, Time due, Time waits_since);
// Hands the task's place in its array to the array's next task.
void LeaveArray(State& state, const TaskRecord& task);
// True if `place` means that the task waits for a user, another task or its start time, not for
// GPUs.
bool WaitsForOthers(const TaskRecord& task, Place place);
Time EarliestStart(const TaskRecord& task);
// The next time at which the queue order can change without an event, or empty if it cannot.
std::optional<Time> NextOrder(const State& state);
void AskForWake(State& state);

}  // namespace carma::core

// Changes to a task's state that several event handlers share.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Why a waiting task can never start on this server under the present limits; empty if it can.
std::optional<Reason> UnfitNow(const State& state, const TaskRecord& task);
void NoteUnfit(State& state, const TaskRecord& task);
void NoteChoice(State& state, const TaskRecord& task);
void StopExpired(State& state);
void WarnExpiring(State& state);
// The usage of the task's attempt if it ended at `to`. `exit` is left empty.
AttemptEnded AttemptOf(const State& state, const TaskRecord& task, Time to);
// The rate at which a placed task is charged (RateOf).
double RateNow(const State& state, const TaskRecord& task);
bool KeepsGpusAlone(const State& state, const TaskRecord& task);
void EndStopped(State& state, TaskRecord& task);
void RequeueLost(State& state, TaskRecord& task, Reason reason);
// Stores the task, which must be in state kEstimating, and requests its estimate. A task without
// GPUs needs no estimate; it is queued, or rejected if it can never start.
void AskEstimate(State& state, TaskRecord& task);
void EndIdle(State& state, TaskRecord& task);
// How long a task waits after this many failures in a row: 5 s after the first, then twice as long
// each time, up to 320 s.
Duration RetryBackoff(int failures);

}  // namespace carma::core

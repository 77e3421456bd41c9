// Decides which tasks must leave their GPUs for other tasks, and requeues the tasks that have left.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

void WakeForTurns(State& state, Time when);
void AskToLeave(State& state, TaskRecord& task, StopCause cause, Time by);
void CancelPreemption(State& state, TaskRecord& task);
// Why a running task must leave.
Reason ReasonOfLeaving(const State& state, const TaskRecord& task);
void StopAsked(State& state, TaskRecord& task);
// True if the way the task ended shows that it saved its work and must be requeued.
bool GoesOnLater(const State& state, const TaskRecord& task);
// Requeues a task that has saved its work.
void EndSaved(State& state, TaskRecord& task);
// Ends the attempt of a task that was stopped after it had been asked to leave.
void EndAsked(State& state, TaskRecord& task, Reason reason);
PreemptionPlan PreemptionPlanNow(const State& state);
// Asks tasks to leave, and stops tasks that have not left in time.
void TakeTurns(State& state);
std::optional<TaskId> KeptFor(const State& state, const GpuState& gpu, Time at);
Reason WithTurns(const State& state, const TaskRecord& task, Reason reason);

// ---- shutdown of the machine: no task starts, and running tasks checkpoint first ----

bool MustAllLeave(const State& state);
void EmptyServer(State& state);
Reason ReasonOfShutdown(const State& state, const TaskRecord& task);

}  // namespace carma::core

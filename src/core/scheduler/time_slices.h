// Which tasks must leave their GPUs for others and are requeued.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

void WakeForTurns(State& state, Time when);
void AskToLeave(State& state, TaskRecord& task, StopCause cause, Time by);
void CancelPreemption(State& state, TaskRecord& task);
// Of a task that still runs.
Reason ReasonOfLeaving(const State& state, const TaskRecord& task);
void StopAsked(State& state, TaskRecord& task);
// Whether it has saved and is requeued, judged by how it ended.
bool GoesOnLater(const State& state, const TaskRecord& task);
// It has saved and is requeued.
void EndSaved(State& state, TaskRecord& task);
// It was stopped after it had been asked.
void EndAsked(State& state, TaskRecord& task, Reason reason);
PreemptionPlan PreemptionPlanNow(const State& state);
// Asks tasks to leave, and stops late ones.
void TakeTurns(State& state);
std::optional<TaskId> KeptFor(const State& state, const GpuState& gpu, Time at);
Reason WithTurns(const State& state, const TaskRecord& task, Reason reason);

}  // namespace carma::core

// Learns from running tasks, for their own promises and for waiting tasks of the same kind.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// A task's promise is lowered if its memory has been stable since this time.
Time PlateauFrom(const State& state, Time at);
void LearnPlateaus(State& state);
// The memory that a waiting task requests because of lessons of its kind; empty: no lesson.
std::optional<std::int64_t> TaughtMib(const State& state, const TaskRecord& task);
// Updates the values derived from a GPU's residents after the residents or their profiles have
// changed.
void LookAtResidents(State& state, GpuIndex gpu);
// Learns the activity of a GPU's tasks from its last sample.
void LearnActivity(State& state, GpuIndex gpu);
// The predicted progress of a running task, in seconds of its run time alone.
double DoneS(const State& state, TaskId task);
// The remaining part of the task's run time alone, in seconds, according to its own progress or to
// earlier runs. All of it if the task waits; empty if unknown.
std::optional<double> LeftS(const State& state, const TaskRecord& task);
// The profile that the ending attempt has shown.
Profile SeenOf(const State& state, const TaskRecord& task);
// The task's current profile, including lessons of its kind.
Profile ProfileNow(const State& state, const TaskRecord& task);
// Adds the task's choice of GPUs and its reservations to the need.
void AddWhere(const State& state, const TaskRequest& request,
              std::shared_ptr<const GpuChoice> choice, Need& need);
void CountIdleCpus(State& state);
void ShowActivity(const State& state, GpuIndex gpu, Time at, GpuView& view);
// The most likely memory of a task whose large prediction nothing has confirmed. It is promised
// instead of the bound, which stays the limit under MPS. Empty: the bound, or a lesson from other
// tasks, is promised.
std::optional<std::int64_t> LikelyMib(const State& state, const TaskRecord& task);
// When the waiting task begins to accept turns with others (kTurnsAfter); empty: it already does.
std::optional<Time> TakesTurnsAt(const State& state, const TaskRecord& task);
// For a task that cannot start now, records changes that may let it start: Passes::next_turns and
// Passes::lacks_cores.
void NoteWhatItAwaits(State& state, const TaskRecord& task, const Need& need);
// Considers refused tasks again once one of them accepts turns.
void ReconsiderAtTurns(State& state);
// The current need of the task, including all lessons.
Need NeedNow(const State& state, const TaskRecord& task);

}  // namespace carma::core

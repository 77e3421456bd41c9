// Lessons from running tasks, for their own promises and for waiting tasks of their kind.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Memory that has been stable since this time lowers the promise.
Time PlateauFrom(const State& state, Time at);
void LearnPlateaus(State& state);
// What a waiting task asks for because of lessons of its kind; empty: no lesson.
std::optional<std::int64_t> TaughtMib(const State& state, const TaskRecord& task);
// Updates what is derived from a GPU's residents after they or their profiles have changed.
void LookAtResidents(State& state, GpuIndex gpu);
// Learns the activity of a GPU's tasks from its last sample.
void LearnActivity(State& state, GpuIndex gpu);
// How much of the task's run time alone is done, in seconds, as predicted.
double DoneS(const State& state, TaskId task);
// How much of it is left, according to the task's own progress or earlier runs; all of it if the
// task waits. Empty: unknown.
std::optional<double> LeftS(const State& state, const TaskRecord& task);
// What the attempt that is ending has shown about the task.
Profile SeenOf(const State& state, const TaskRecord& task);
// The task's profile, including lessons of its kind.
Profile ProfileNow(const State& state, const TaskRecord& task);
// Adds the task's choice of GPUs and its reservations to the need.
void AddWhere(const State& state, const TaskRequest& request,
              std::shared_ptr<const GpuChoice> choice, Need& need);
void CountIdleCpus(State& state);
void ShowActivity(const State& state, GpuIndex gpu, Time at, GpuView& view);
// The most likely value of a large prediction that nothing has confirmed: it is promised instead of
// the bound, which stays the limit under MPS. Empty: the bound, or a lesson from other tasks, is
// promised.
std::optional<std::int64_t> LikelyMib(const State& state, const TaskRecord& task);
// When the waiting task begins to accept turns with others (kTurnsAfter); empty: it already does.
std::optional<Time> TakesTurnsAt(const State& state, const TaskRecord& task);
// Notes what may let a considered task start that cannot start now: Passes::next_turns,
// cpus_wanted.
void NoteWhatItAwaits(State& state, const TaskRecord& task, const Need& need);
// Considers refused tasks again once one of them accepts turns.
void ReconsiderAtTurns(State& state);
// What the task needs now, including all lessons.
Need NeedNow(const State& state, const TaskRecord& task);

}  // namespace carma::core

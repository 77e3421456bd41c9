// Learns from running tasks how much they really need. Adjusts their promises and the requests of
// waiting tasks of the same kind.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// A task's promise is lowered if its memory has been stable at least since this time.
Time PlateauFrom(const State& state, Time at);
void LearnPlateaus(State& state);
// Memory that a waiting task requests based on lessons from similar tasks. Empty if there are none.
std::optional<std::int64_t> TaughtMib(const State& state, const TaskRecord& task);
// Updates everything that is derived from a GPU's residents. Called after the residents or their
// profiles have changed.
void LookAtResidents(State& state, GpuIndex gpu);
// Learns the activity of a GPU's tasks from its last sample.
void LearnActivity(State& state, GpuIndex gpu);
// The predicted progress of a running task, in seconds of its solo run time.
double DoneS(const State& state, TaskId task);
// The task's remaining solo run time in seconds, based on its own progress or else on earlier runs.
// For a waiting task, the full run time. Empty if unknown.
std::optional<double> LeftS(const State& state, const TaskRecord& task);
// The task's profile as observed during the attempt that is ending.
Profile SeenOf(const State& state, const TaskRecord& task);
// The task's profile, updated with what was learned from similar tasks.
Profile ProfileNow(const State& state, const TaskRecord& task);
// Fills in which GPUs the task may use and which reservations admit it, and adapts its slowdown
// limit to these GPUs.
void AddWhere(const State& state, const TaskRequest& request,
              std::shared_ptr<const GpuChoice> choice, Need& need);
void CountIdleCpus(State& state);
void ShowActivity(const State& state, GpuIndex gpu, Time at, GpuView& view);
// The most likely memory usage of a task with a large prediction that no run has confirmed. It is
// promised instead of the bound, which remains the limit under MPS. Empty if the promise is the
// bound, or the memory that other tasks of the kind have needed.
std::optional<std::int64_t> LikelyMib(const State& state, const TaskRecord& task);
// When the waiting task may begin to take turns with others (kTurnsAfter), or empty if it already
// may.
std::optional<Time> TakesTurnsAt(const State& state, const TaskRecord& task);
// Records what might let a waiting task start later (Passes::next_turns, Passes::lacks_cores).
void NoteWhatItAwaits(State& state, const TaskRecord& task, const Need& need);
// True if the task is expected to keep more cores busy than are idle now.
bool LacksCores(const State& state, const Need& need);
// If a refused task may take turns by now, makes the next pass reconsider all refused tasks.
void ReconsiderAtTurns(State& state);
// The task's current requirements, based on everything learned from its attempts and from similar
// tasks.
Need NeedNow(const State& state, const TaskRecord& task);

}  // namespace carma::core

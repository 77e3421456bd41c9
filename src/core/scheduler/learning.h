// Lessons from running tasks, for their own promises and for waiting tasks of their kind.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Promises count memory that is stable since then.
Time PlateauFrom(const State& state, Time at);
void LearnPlateaus(State& state);
// What it asks for because of its kind's lessons; empty: no lesson.
std::optional<std::int64_t> TaughtMib(const State& state, const TaskRecord& task);
// After residents or their profiles have changed.
void LookAtResidents(State& state, GpuIndex gpu);
// From its last sample.
void LearnActivity(State& state, GpuIndex gpu);
// Seconds of its run time alone that are done, as predicted.
double DoneS(const State& state, TaskId task);
// Seconds of it that are left, by its own progress or earlier runs; of a waiting task all. Empty:
// unknown.
std::optional<double> LeftS(const State& state, const TaskRecord& task);
// What its attempt, which ends now, has shown.
Profile SeenOf(const State& state, const TaskRecord& task);
// With its kind's lessons.
Profile ProfileNow(const State& state, const TaskRecord& task);
// Adds its choice of GPUs and its reservations to the need.
void AddWhere(const State& state, const TaskRequest& request,
              std::shared_ptr<const GpuChoice> choice, Need& need);
void CountIdleCpus(State& state);
void ShowActivity(const State& state, GpuIndex gpu, Time at, GpuView& view);
// Whether its promise falls while it waits (large predictions).
bool IsEased(const State& state, const TaskRecord& task);
std::optional<Time> EasesAt(const State& state, const TaskRecord& task);
// Considers refused tasks again once they ask for less memory.
void ForgetLooksOnceEased(State& state);
// With all lessons.
Need NeedNow(const State& state, const TaskRecord& task);

}  // namespace carma::core

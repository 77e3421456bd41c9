// Explains in words why a task waits.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Why a closed server or a limit keeps the queued or new task from starting. Empty if neither does.
std::optional<Reason> ReasonToBar(const State& state, const TaskRecord& task,
                                  const Limits::Wants& wants, Time at);
Verdict VerdictOn(const State& state, const TaskRecord& task, const GpuView& view);
HostVerdict HostVerdictOn(const State& state, const TaskRecord& task, Time at);
Reason ReasonOf(const State& state, const TaskRecord& task, Time at);
std::size_t AheadOf(const State& state, const TaskRecord& task);

}  // namespace carma::core

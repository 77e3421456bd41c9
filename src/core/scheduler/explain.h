// Explains in words why a task waits.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

Verdict VerdictOn(const State& state, const TaskRecord& task, const GpuView& view);
HostVerdict HostVerdictOn(const State& state, const TaskRecord& task, Time at);
Reason ReasonOf(const State& state, const TaskRecord& task, Time at);
std::size_t AheadOf(const State& state, const TaskRecord& task);

}  // namespace carma::core

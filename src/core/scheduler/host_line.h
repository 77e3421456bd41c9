// Starts tasks without GPUs, and promises the machine's cores and memory to tasks.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// The queue head for which cores and memory are kept: one that has waited for pass_limit, as with
// GPUs. If both queue heads have waited that long, the one with the longer wait.
std::optional<TaskId> HostKeptFor(const State& state, Time at);
// The machine's cores and memory available to this task.
HostView HostFor(const State& state, TaskId task, Time at);
bool HostTakes(const State& state, TaskId task, const HostNeed& need);
Choice WithoutGpus(const State& state, const TaskRecord& task);
HostShare ShareFor(const State& state, const TaskRecord& task,
                   const std::vector<Placement>& placement);
void StartWithoutGpus(State& state);
void NoteShortOfHost(State& state);

}  // namespace carma::core

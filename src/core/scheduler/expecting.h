// Computes the expected starts of waiting tasks.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

LineUp::Newcomer NewcomerOf(const State& state, const TaskRecord& task);
// True if only the head of the main queue may start.
bool FirstOnly(const State& state);
// The first queued tasks in order. Among tasks with GPUs, those in the recovery queue come first.
std::vector<TaskId> InLine(const State& state, LineKind kind, std::size_t most,
                           const TaskRecord* newcomer = nullptr);
// newcomer: a new task, queued behind all tasks of its line; may be null.
std::map<TaskId, ExpectedStart> ExpectedStarts(const State& state, Time at,
                                               const TaskRecord* newcomer, std::size_t most);

}  // namespace carma::core

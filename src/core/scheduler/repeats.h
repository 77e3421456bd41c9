// Delays tasks that are requeued within a minute of starting, and tasks that another task submits
// within a minute of its own start. The first one is not delayed; after that, the delay doubles
// each time.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Counts a requeue of a running task. The count starts over after a run of at least a minute.
void NoteRequeue(State& state, const TaskRecord& task);
// Sets the pause for a requeued task, and the reason for it, once its attempt has ended.
void PauseRequeued(State& state, TaskRecord& task);
// Sets the pause for a new task that the running task `by` has submitted. The new task inherits
// `by`'s count.
void PauseSubmitted(State& state, TaskRecord& task, TaskId by);

}  // namespace carma::core

// Delays tasks that are requeued, or that submit another task, within a minute of starting. The
// first repetition is not delayed. The delay doubles with each further repetition in a row.
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

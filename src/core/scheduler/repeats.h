// Slows down tasks that, as soon as they have started, are requeued or submit another task. From
// the second time in a row there is a pause before the next start, which doubles each time.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Counts a requeue of a running task. After a run of a minute the count begins again.
void NoteRequeue(State& state, const TaskRecord& task);
// Sets the pause and its reason once the requeued attempt has ended.
void PauseRequeued(State& state, TaskRecord& task);
// Sets the pause of a new task that the running task `by` has submitted; the new task continues the
// count of `by`.
void PauseSubmitted(State& state, TaskRecord& task, TaskId by);

}  // namespace carma::core

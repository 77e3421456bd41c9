// Shutdown of the machine: no task starts, and running ones checkpoint before they are stopped.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

bool MustAllLeave(const State& state);
void EmptyServer(State& state);
Reason ReasonOfShutdown(const State& state, const TaskRecord& task);

}  // namespace carma::core

// Handles tasks that ran out of memory: decides their next claim and which GPUs are kept free for
// them.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

void EndOutOfMemory(State& state, TaskRecord& task, std::int64_t tried_mib);
void EndFailed(State& state, TaskRecord& task, Reason reason);
// The most memory per GPU that the requested number of GPUs could provide at the same time, and
// that the limits allow. 0 if there are too few GPUs.
std::int64_t MostFor(const State& state, const TaskRequest& request);
// A prediction may be wrong, so it must not make a task too large for the server or its limits.
// Reduces the estimate to MostFor.
void CutToGpus(const State& state, TaskRecord& task);
void UpdateReservation(State& state);

}  // namespace carma::core

// Handles events about the server: its GPUs, its cores and memory, and its policy.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Applies the configured shares, classes and limits.
void FollowEntitlements(State& state);

}  // namespace carma::core

// Handles events about the server: its GPUs, its cores and memory, and its policy.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Applies the shares, classes and limits of the configuration.
void FollowEntitlements(State& state);

}  // namespace carma::core

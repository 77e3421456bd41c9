// Events of the server: its GPUs, its own cores and memory, its rules.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Applies the shares, classes and limits of the configuration.
void FollowEntitlements(State& state);

}  // namespace carma::core

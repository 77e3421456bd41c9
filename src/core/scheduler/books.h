// Consistency checks of all state of the core.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Compares every book with every other. Empty: all balance.
std::optional<std::string> CheckBooks(const State& state);

}  // namespace carma::core

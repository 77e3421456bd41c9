// Consistency checks of all state of the core.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Compares all records of the core with each other. Empty: they agree.
std::optional<std::string> CheckBooks(const State& state);

}  // namespace carma::core

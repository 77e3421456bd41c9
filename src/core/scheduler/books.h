// Checks that all parts of the core's state are consistent.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Compares all records of the core with each other. Returns the first contradiction, or nothing if
// there is none.
std::optional<std::string> CheckBooks(const State& state);

}  // namespace carma::core

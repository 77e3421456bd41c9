// Consistency checks of the whole state of the core.
#pragma once

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// Compares all records of the core with each other. Returns the first contradiction; empty if there
// is none.
std::optional<std::string> CheckBooks(const State& state);

}  // namespace carma::core

// Finds tasks with the same requirements, so that the guards have to check only one of them.
// Private to core.
#pragma once

#include <cstddef>

#include "core/policy/policy.h"

namespace carma::core {

// True if both tasks get the same verdict on every GPU, even if one has waited longer.
bool AskTheSame(const Need& a, const Need& b);
// A hash consistent with AskTheSame.
std::size_t HashOf(const Need& need);

}  // namespace carma::core

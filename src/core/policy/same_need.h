// Finds tasks with equal needs, so that the guards need to check only one of them. Private to core.
#pragma once

#include <cstddef>

#include "core/policy/policy.h"

namespace carma::core {

// Whether both tasks get the same verdict on every GPU. The tasks may have waited for different
// lengths of time.
bool AskTheSame(const Need& a, const Need& b);
// A hash that is equal for any two needs that AskTheSame treats as equal.
std::size_t HashOf(const Need& need);

}  // namespace carma::core

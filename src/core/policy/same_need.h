// Finds tasks with equal needs, so that only one of them must be checked. Private to core.
#pragma once

#include <cstddef>

#include "core/policy/policy.h"

namespace carma::core {

// Whether both tasks get the same verdict on every GPU. Their waiting times may differ.
bool AskTheSame(const Need& a, const Need& b);
// A hash that is equal for all needs for which AskTheSame is true.
std::size_t HashOf(const Need& need);

}  // namespace carma::core

// Tasks with equal needs, of which only one is checked. Private to core.
#pragma once

#include <cstddef>

#include "core/policy/policy.h"

namespace carma::core {

// Whether both tasks get the same verdict on any GPU. Their waiting times may differ.
bool AskTheSame(const Need& a, const Need& b);
// A hash that is equal for needs that AskTheSame.
std::size_t HashOf(const Need& need);

}  // namespace carma::core

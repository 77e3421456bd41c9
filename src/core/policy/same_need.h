// Tasks that ask for the same: one of them is looked at for all. Private to core.
#pragma once

#include <cstddef>

#include "core/policy/policy.h"

namespace carma::core {

// The same answer for both tasks on any GPU; how long they have waited only decides between them.
bool AskTheSame(const Need& a, const Need& b);
// Equal for needs that ask for the same; mostly another one for others.
std::size_t HashOf(const Need& need);

}  // namespace carma::core

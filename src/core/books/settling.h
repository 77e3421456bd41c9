// When a GPU shows what was put on it last.
#pragma once

#include <span>

#include "core/books/ledger.h"

namespace carma::core {

// True once the window of the sample begins after each resident was first seen to hold memory:
// before, its means still speak of the time without the task. One that never shows counts as seen
// `timeout` after its launch.
bool HasSettled(const GpuSample& sample, std::span<const Resident> residents, Time now,
                Duration timeout);

}  // namespace carma::core

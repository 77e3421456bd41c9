// When a GPU shows what was put on it last.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/books/ledger.h"

namespace carma::core {

// True once the window of the sample begins after each resident was first seen to hold memory:
// before, its means still speak of the time without the task. One that never shows counts as seen
// `timeout` after its launch.
bool HasSettled(const GpuSample& sample, std::span<const Resident> residents, Time now,
                Duration timeout);

// When the last of them has shown itself, and what of the window shows them all.
struct Settled {
  std::optional<Time> by;  // at the latest; empty: they have
  double share = 1;        // of the window, since the last of them was seen
};
// A resident has shown itself as above, or once its memory has stood still for 15 s; one of `known`
// (by its place among the residents) needs not be seen. A mean over the window then has to be
// divided by the share.
Settled LookWhetherSettled(const GpuSample& sample, std::span<const Resident> residents,
                           const std::vector<bool>& known, Time now, Duration timeout);

}  // namespace carma::core

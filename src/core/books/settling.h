// Decides whether the samples of a GPU already include the task that was placed last.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/books/ledger.h"

namespace carma::core {

// True once the window of the sample begins after each resident was first seen to hold memory:
// before that, its means still include time without the task. A task that never appears counts as
// seen `timeout` after its launch.
bool HasSettled(const GpuSample& sample, std::span<const Resident> residents, Time now,
                Duration timeout);

// When the last resident has appeared, and the share of the window that shows all of them.
struct Settled {
  std::optional<Time> by;  // at the latest; empty: all have appeared
  double share = 1;        // of the window, since the last appeared
};
// A resident has appeared as defined for HasSettled, or once its memory has been stable for 15 s.
// Residents marked in `known` (by position) need not appear. Means over the window must then be
// divided by `share`.
Settled LookWhetherSettled(const GpuSample& sample, std::span<const Resident> residents,
                           const std::vector<bool>& known, Time now, Duration timeout);

}  // namespace carma::core

// Decides whether a GPU's samples already include the task that was placed there last.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/books/ledger.h"

namespace carma::core {

// True if the sample's window begins after every resident was first seen holding memory. Otherwise
// its means are too low. A task that never appears counts as seen `timeout` after its launch.
bool HasSettled(const GpuSample& sample, std::span<const Resident> residents, Time now,
                Duration timeout);

// When all residents will have appeared in the samples, and how much of the window already shows
// all of them.
struct Settled {
  std::optional<Time> by;  // the latest time; empty if all have appeared
  double share = 1;        // share of the window since the last resident appeared
};
// A resident has appeared if HasSettled counts it as seen or if its memory has been stable for 15
// s. Residents marked in `known` (by position) are ignored. If all have appeared, divide the
// sample's means by `share` to correct them.
Settled LookWhetherSettled(const GpuSample& sample, std::span<const Resident> residents,
                           const std::vector<bool>& known, Time now, Duration timeout);

}  // namespace carma::core

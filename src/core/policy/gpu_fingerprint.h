// The part of a GPU's state that determines whether a waiting task can start there. Passes over the
// queue are skipped until it changes, because samples arrive every second and thousands of tasks
// may be waiting.
#pragma once

#include <cstdint>
#include <optional>

#include "core/policy/policy.h"

namespace carma::core {

// How much of the GPU is used, 0..1. Measured if the GPU's samples show all of its tasks, otherwise
// predicted.
double UseOf(const GpuView& gpu);

struct GpuFingerprint {
  bool takes = false;        // healthy, open and not exclusive
  bool settled = false;      // GpuView::settled
  bool quiet = false;        // activity low enough for more tasks
  bool little_used = false;  // UseOf is below kTurnsBelow
  std::int64_t free_mib = 0;
  std::optional<TaskId> reserved_for;
  std::uint64_t crowd = 0;  // changes whenever the GPU's set of tasks changes
};
GpuFingerprint FingerprintOf(const PolicyConfig& config, const GpuView& gpu, std::uint64_t crowd);

// True if a GPU that could not take any waiting task in state `before` still cannot in state `now`.
bool OpensNothing(const GpuFingerprint& before, const GpuFingerprint& now);

}  // namespace carma::core

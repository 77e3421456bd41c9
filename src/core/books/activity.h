// Derives the SM activity that a task would have alone on its GPU from one of the GPU's samples.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/books/ledger.h"
#include "core/values/gpu.h"
#include "core/values/interference.h"

namespace carma::core {

// Samples taken this soon after a task starts are ignored, because a program loads data and tunes
// its kernels before it reaches its usual activity.
inline constexpr Duration kActivityWarmUp{60'000};
// The neighbours of a new task must leave the GPU idle for at least this share of the time.
// Otherwise an error in their activity cannot be told apart from the activity that the new task
// adds.
inline constexpr double kLeastQuiet = 0.3;

struct SeenActivity {
  std::size_t resident = 0;  // its position among the residents
  double sm_active = 0;      // as if alone, 0..1, rounded to hundredths
};
// Returns the activity of the only task on the GPU. Under MPS, if the activity of exactly one task
// is unknown, that task's activity can also be derived, because the tasks' shares of idle SM time
// multiply. Returns nothing if the activity cannot be derived: SM activity is not reported, foreign
// processes are present, several tasks are unknown, or a task came, warmed up or left within the
// window. changed: when the last task came or left.
std::optional<SeenActivity> ActivityOf(const GpuSample& sample, std::span<const Resident> residents,
                                       Time changed, SharingMethod sharing);

}  // namespace carma::core

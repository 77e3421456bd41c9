// Derives, from one GPU sample, the SM activity that a task would have if it ran alone on that GPU.
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
// A new task's activity is derived only if its neighbours leave the GPU idle for at least this
// share of the time. Otherwise small errors in the neighbours' activities would swamp the result.
inline constexpr double kLeastQuiet = 0.3;

struct SeenActivity {
  std::size_t resident = 0;  // the task's position among the residents
  double sm_active = 0;      // as if running alone, 0..1, rounded to hundredths
};
// Returns the SM activity of a task that is alone on the GPU. Under MPS, also returns the only
// unknown activity among several tasks, by inverting SmActivity. Empty if the GPU does not report
// SM activity or has foreign processes, or if a task arrived, warmed up or left during the window.
// changed: when a task last arrived or left.
std::optional<SeenActivity> ActivityOf(const GpuSample& sample, std::span<const Resident> residents,
                                       Time changed, SharingMethod sharing);

}  // namespace carma::core

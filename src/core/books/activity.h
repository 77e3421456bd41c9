// Derives the SM activity that a task would have alone from a sample of its GPU. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/books/ledger.h"
#include "core/values/gpu.h"
#include "core/values/interference.h"

namespace carma::core {

// Samples within this time after a start are ignored: programs load data and tune their kernels
// before they reach their usual activity.
inline constexpr Duration kActivityWarmUp{60'000};
// Neighbours must leave the GPU idle for at least this share of the time. Otherwise the activity
// that a new task adds cannot be distinguished from an error in the neighbours' activity.
inline constexpr double kLeastQuiet = 0.3;

struct SeenActivity {
  std::size_t resident = 0;  // its position among the residents
  double sm_active = 0;      // as if alone, 0..1, rounded to hundredths
};
// The activity of the only task on the GPU. Under MPS, it is also known for the only task whose
// activity is unknown, because the shares of time in which tasks leave an SM idle multiply. Empty
// if the activity cannot be derived: SM activity is not reported, foreign processes are present,
// several tasks are unknown, or a task came, warmed up or left within the window. changed: when the
// last task came or left.
std::optional<SeenActivity> ActivityOf(const GpuSample& sample, std::span<const Resident> residents,
                                       Time changed, SharingMethod sharing);

}  // namespace carma::core

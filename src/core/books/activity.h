// What a sample of a GPU tells of the SM activity that one of its tasks would have alone. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/books/ledger.h"
#include "core/values/gpu.h"
#include "core/values/interference.h"

namespace carma::core {

// Programs load data and tune their kernels before they work as they will.
inline constexpr Duration kWarmUp{60'000};
// The least share of its time that neighbours must have left a GPU quiet: below it, what a newcomer
// adds is too little to be told from an error of the others.
inline constexpr double kLeastQuiet = 0.3;

struct SeenActivity {
  std::size_t resident = 0;  // place among them
  double sm_active = 0;      // alone, 0..1, in hundredths
};
// Of the only task there; under MPS also of the only one of which nothing has been seen yet, for
// the shares of time in which each leaves an SM idle multiply. Empty: the sample does not tell (no
// SM activity, strangers, several unknown, a window that saw somebody come, warm up or leave).
// changed: when the last one came or left.
std::optional<SeenActivity> ActivityOf(const GpuSample& sample, std::span<const Resident> residents,
                                       Time changed, SharingMethod sharing);

}  // namespace carma::core

// Predicts a training job's memory from its earlier runs with different amounts (batch sizes,
// sample lengths).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace carma::estimate {

// A task that ran out of memory is assumed to need at least this many times the memory it had.
inline constexpr double kMoreThanRanOut = 1.1;

// A measured run.
struct Sighting {
  double amount = 0;  // batch size, sample length, or their product; above 0
  std::int64_t mib = 0;
  bool ran_out = false;  // the run needed more than `mib`
};

struct Interpolation {
  std::int64_t point_mib = 0;
  std::int64_t bound_mib = 0;  // at least point_mib
  std::size_t runs = 0;        // number of runs used
  bool between = false;        // true: between known amounts; false: outside them
};

// Predicts the memory needed at `amount`. Assumes that memory is an increasing convex function of
// the amount. Between two known amounts, the memory is therefore on or below the straight line
// through them. Above the largest amount, it rises at least as steeply as the steepest of these
// lines. Empty if fewer than two amounts are known, or if `amount` is below a quarter of the
// smallest or above four times the largest.
std::optional<Interpolation> Interpolate(std::span<const Sighting> seen, double amount);

}  // namespace carma::estimate

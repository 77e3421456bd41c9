// Predicts memory from runs of the same training with other amounts (batch sizes, lengths).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace carma::estimate {

// A task that ran out of memory is assumed to need at least this factor times what it had.
inline constexpr double kMoreThanRanOut = 1.1;

// A measured run.
struct Sighting {
  double amount = 0;  // samples, tokens, or both multiplied; above 0
  std::int64_t mib = 0;
  bool ran_out = false;  // the run needed more
};

struct Interpolation {
  std::int64_t point_mib = 0;
  std::int64_t bound_mib = 0;  // at least the point
  std::size_t runs = 0;        // number of runs used
  bool between = false;        // true: between known amounts; false: outside them
};

// Predicts the need at `amount`. Memory is assumed to be a growing convex function of the amount:
// between two known amounts it is at most the straight line, and above the largest at least the
// steepest line so far. Empty with fewer than two known amounts, or if `amount` is below a quarter
// of the smallest or above four times the largest.
std::optional<Interpolation> Interpolate(std::span<const Sighting> seen, double amount);

}  // namespace carma::estimate

// What runs with other amounts (batches, lengths) of the same thing say about the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace carma::estimate {

// A run that was measured.
struct Sighting {
  double amount = 0;  // samples, tokens, or both multiplied; above 0
  std::int64_t mib = 0;
  bool ran_out = false;  // it needed more
};

struct Interpolation {
  std::int64_t point_mib = 0;
  std::int64_t bound_mib = 0;  // at least the point
  std::size_t runs = 0;        // that it rests on
  bool between = false;        // two amounts that were seen; else beyond them
};

// The need at `amount`. Memory grows with the amount, and not more slowly the larger it is: between
// two amounts it is on the line or below it, and above the largest at least on the steepest line so
// far. Empty where fewer than two amounts were seen or this one lies too far from them: below a
// quarter of the least, above four times the largest.
std::optional<Interpolation> Interpolate(std::span<const Sighting> seen, double amount);

}  // namespace carma::estimate

// Seeded random numbers. The same seed gives the same numbers on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace carma::base {

// SplitMix64 (Steele, Lea, Flood 2014). Has 64 bits of state and the full period, which is good
// enough for simulation.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // [0, 1)
  std::uint64_t Below(std::uint64_t n) { return Next() % n; }  // n > 0; bias < n / 2^64
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }
  double Normal() {  // Box-Muller
    const double radius = std::sqrt(-2.0 * std::log1p(-Uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * Uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace carma::base

// Units of drivers and tools: percent, bytes, milliwatts and millijoules are converted to CARMA's
// fractions, MiB, watts and joules only here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace carma::gpu {

// Counters are sampled one after the other, so a full GPU may read slightly above 1.
inline constexpr double kFractionSlack = 0.01;
// Upper limit for plausible rates: no link of a GPU reaches 10 TB/s.
inline constexpr double kMaxBytesPerSecond = 1e13;

// Empty: no fraction (not a number, negative, above 1 by more than the slack). Values within the
// slack become 1.
constexpr std::optional<double> ToFraction(double whole_is_one) {
  if (!(whole_is_one >= 0 && whole_is_one <= 1 + kFractionSlack)) return std::nullopt;
  return std::min(whole_is_one, 1.0);
}
constexpr std::optional<double> PercentToFraction(double percent) {
  return ToFraction(percent / 100);
}
// Empty: an impossible rate.
constexpr std::optional<double> ToBytesPerSecond(double bytes_per_second) {
  if (!(bytes_per_second >= 0 && bytes_per_second <= kMaxBytesPerSecond)) return std::nullopt;
  return bytes_per_second;
}
constexpr std::optional<double> MibToBytesPerSecond(double mib_per_second) {
  return ToBytesPerSecond(mib_per_second * 1'048'576.0);
}

// Available memory is rounded down and used memory up, so that rounding never promises memory that
// does not exist.
constexpr std::int64_t BytesToWholeMib(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes >> 20);
}
constexpr std::int64_t BytesToStartedMib(std::uint64_t bytes) {
  return BytesToWholeMib(bytes) + ((bytes & 0xF'FFFF) != 0 ? 1 : 0);
}
constexpr double MilliwattsToWatts(std::uint32_t milliwatts) {
  return milliwatts / 1000.0;
}
constexpr double MillijoulesToJoules(std::uint64_t millijoules) {
  return static_cast<double>(millijoules) / 1000.0;
}

}  // namespace carma::gpu

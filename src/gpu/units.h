// Converts the units of drivers and tools (percent, bytes, milliwatts, millijoules) to CARMA's
// fractions, MiB, watts and joules. No other code converts these units. Each unit is a separate
// type, so mixing units does not compile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace carma::gpu {

template <class Unit, class Number>
class Quantity {
 public:
  constexpr Quantity() = default;
  explicit constexpr Quantity(Number value) : value_(value) {}
  constexpr Number value() const { return value_; }
  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

 private:
  Number value_{};
};

using Percent = Quantity<struct PercentUnit, double>;
using Fraction = Quantity<struct FractionUnit, double>;  // 0..1
using Bytes = Quantity<struct BytesUnit, std::uint64_t>;
using Mib = Quantity<struct MibUnit, std::int64_t>;
using Milliwatts = Quantity<struct MilliwattsUnit, std::uint32_t>;
using Watts = Quantity<struct WattsUnit, double>;
using Millijoules = Quantity<struct MillijoulesUnit, std::uint64_t>;
using Joules = Quantity<struct JoulesUnit, double>;
using MibPerSecond = Quantity<struct MibPerSecondUnit, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;

// Counters are sampled one after another, so a counter of a fully used GPU may be slightly above 1.
inline constexpr double kFractionSlack = 0.01;
// Upper limit for plausible rates: no GPU link reaches 10 TB/s.
inline constexpr double kMaxBytesPerSecond = 1e13;

// Empty if the value is not a fraction (NaN, negative, or above 1 by more than the slack). Values
// above 1 within the slack become 1.
constexpr std::optional<Fraction> ToFraction(double whole_is_one) {
  if (!(whole_is_one >= 0 && whole_is_one <= 1 + kFractionSlack)) return std::nullopt;
  return Fraction(std::min(whole_is_one, 1.0));
}
constexpr std::optional<Fraction> ToFraction(Percent percent) {
  return ToFraction(percent.value() / 100);
}
// Empty if the rate is impossible.
constexpr std::optional<BytesPerSecond> ToRate(double bytes_per_second) {
  if (!(bytes_per_second >= 0 && bytes_per_second <= kMaxBytesPerSecond)) return std::nullopt;
  return BytesPerSecond(bytes_per_second);
}
constexpr std::optional<BytesPerSecond> ToRate(MibPerSecond rate) {
  return ToRate(rate.value() * 1'048'576.0);
}

// Available memory is rounded down, and used memory is rounded up, so rounding never promises
// memory that does not exist.
constexpr Mib WholeMib(Bytes there) {
  return Mib(static_cast<std::int64_t>(there.value() >> 20));
}
constexpr Mib StartedMib(Bytes taken) {
  return Mib(static_cast<std::int64_t>(taken.value() >> 20) +
             ((taken.value() & 0xF'FFFF) != 0 ? 1 : 0));
}
constexpr Watts ToWatts(Milliwatts power) {
  return Watts(power.value() / 1000.0);
}
constexpr Joules ToJoules(Millijoules energy) {
  return Joules(static_cast<double>(energy.value()) / 1000.0);
}

}  // namespace carma::gpu

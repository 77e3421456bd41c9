// Points in time and time spans for the core, which receives the time from its caller and never
// reads a clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace carma::base {

// Milliseconds since the Unix epoch. There is no now(), because only the code around the core has a
// clock (base/clock.h).
struct CoreClock {
  using rep = std::int64_t;
  using period = std::milli;
  using duration = std::chrono::milliseconds;
  using time_point = std::chrono::time_point<CoreClock, duration>;
  static constexpr bool is_steady = true;
};
using Time = CoreClock::time_point;
using Duration = std::chrono::milliseconds;

inline constexpr Time FromMs(std::int64_t ms) {
  return Time(Duration(ms));
}
inline constexpr std::int64_t ToMs(Time t) {
  return t.time_since_epoch().count();
}
inline constexpr double Seconds(Duration d) {
  return static_cast<double>(d.count()) / 1000.0;
}

}  // namespace carma::base

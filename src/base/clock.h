// A clock interface, and the clock of a real or simulated server.
#pragma once

#include <chrono>

#include "base/time.h"

namespace carma::base {

// carmad must be restarted if the system clock is set forward or back by more than this.
inline constexpr std::chrono::minutes kClockSlack{1};

std::int64_t BootTimeNs();  // CLOCK_BOOTTIME

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes backwards, even if the system's wall clock is set back.
  virtual Time Now() = 0;
  // The value of Now() at the moment when BootTimeNs() was `boot_ns`.
  virtual Time TimeAt(std::int64_t boot_ns) const = 0;
  // How much real time passes while Now() advances by `d`.
  virtual std::chrono::nanoseconds RealSpan(Duration d) const = 0;
  // How many times as fast as real time Now() advances.
  double Scale() const { return 1e9 / static_cast<double>(RealSpan(Duration{1'000}).count()); }
  // How far the system's wall clock has been set forward since this clock was constructed.
  virtual Duration WallStep() { return {}; }
};

// Wall-clock time at construction, plus `scale` times the time elapsed on CLOCK_BOOTTIME since
// then. All clocks of a simulated server (scale > 1) share one origin: a wall-clock and a
// CLOCK_BOOTTIME reading taken at the same moment.
class SystemClock : public Clock {
 public:
  explicit SystemClock(double scale = 1.0);
  // origin_boot_ns: the CLOCK_BOOTTIME reading at origin_time.
  SystemClock(double scale, Time origin_time, std::int64_t origin_boot_ns);
  Time Now() override { return TimeAt(BootTimeNs()); }
  Time TimeAt(std::int64_t boot_ns) const override;
  std::chrono::nanoseconds RealSpan(Duration d) const override;
  Duration WallStep() override;

 private:
  bool begins_with_wall_ = false;
  double scale_;
  Time origin_time_;
  std::int64_t origin_boot_ns_;
};

}  // namespace carma::base

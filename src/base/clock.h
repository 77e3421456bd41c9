// Clocks. No other code reads the time of day.
#pragma once

#include <chrono>

#include "base/time.h"

namespace carma::base {

// A smaller Clock::WallStep() needs no restart.
inline constexpr std::chrono::minutes kClockSlack{1};

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes backwards, even if the system's wall clock is set back.
  virtual Time Now() = 0;
  // The real time to wait until Now() has advanced by `d`.
  virtual std::chrono::nanoseconds RealSpan(Duration d) const = 0;
  // By how much the system's wall clock has been set forward since this clock was made.
  virtual Duration WallStep() { return {}; }
};

// Adds to the wall-clock time at construction the boot-time clock since then, `scale` times as
// fast. All clocks of a simulated server (scale > 1) share the same origin, a pair of readings of
// both clocks.
class SystemClock : public Clock {
 public:
  explicit SystemClock(double scale = 1.0);
  // origin_boot_ns: CLOCK_BOOTTIME reading at which the time was origin_time.
  SystemClock(double scale, Time origin_time, std::int64_t origin_boot_ns);
  Time Now() override;
  std::chrono::nanoseconds RealSpan(Duration d) const override;
  Duration WallStep() override;

 private:
  bool begins_with_wall_ = false;
  double scale_;
  Time origin_time_;
  std::int64_t origin_boot_ns_;
};

class FakeClock : public Clock {
 public:
  explicit FakeClock(Time start = FromMs(0)) : now_(start) {}
  Time Now() override { return now_; }
  std::chrono::nanoseconds RealSpan(Duration d) const override { return d; }
  void MoveTo(Time t) { now_ = t < now_ ? now_ : t; }
  void Advance(Duration d) { now_ += d; }

 private:
  Time now_;
};

std::int64_t BootTimeNs();  // CLOCK_BOOTTIME

}  // namespace carma::base

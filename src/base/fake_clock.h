// A clock that moves only when a test tells it to.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace carma::base {

class FakeClock : public Clock {
 public:
  explicit FakeClock(Time start = FromMs(0)) : now_(start) {}
  Time Now() override { return now_; }
  Time TimeAt(std::int64_t boot_ns) const override { return FromMs(boot_ns / 1'000'000); }
  std::chrono::nanoseconds RealSpan(Duration d) const override { return d; }
  void MoveTo(Time t) { now_ = t < now_ ? now_ : t; }
  void Advance(Duration d) { now_ += d; }

 private:
  Time now_;
};

}  // namespace carma::base

#include "base/clock.h"

#include <ctime>

namespace carma::base {
namespace {

std::int64_t ReadNs(clockid_t id) {
  timespec ts{};
  ::clock_gettime(id, &ts);
  return static_cast<std::int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

std::int64_t BootTimeNs() {
  return ReadNs(CLOCK_BOOTTIME);
}

SystemClock::SystemClock(double scale)
    : SystemClock(scale, FromMs(ReadNs(CLOCK_REALTIME) / 1'000'000), BootTimeNs()) {
  begins_with_wall_ = scale == 1.0;
}

Duration SystemClock::WallStep() {
  return begins_with_wall_ ? SystemClock().Now() - Now() : Duration{};
}

SystemClock::SystemClock(double scale, Time origin_time, std::int64_t origin_boot_ns)
    : scale_(scale), origin_time_(origin_time), origin_boot_ns_(origin_boot_ns) {}

Time SystemClock::TimeAt(std::int64_t boot_ns) const {
  const double elapsed_ms = static_cast<double>(boot_ns - origin_boot_ns_) * scale_ / 1e6;
  return origin_time_ + Duration(static_cast<std::int64_t>(elapsed_ms));
}

std::chrono::nanoseconds SystemClock::RealSpan(Duration d) const {
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(d.count()) * 1e6 / scale_));
}

}  // namespace carma::base

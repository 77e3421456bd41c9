#include "base/calendar.h"

namespace carma::base {

std::tm PartsOf(Time at, bool utc) {
  const auto seconds = static_cast<std::time_t>(
      std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count());
  std::tm parts{};
  if (utc) {
    ::gmtime_r(&seconds, &parts);
  } else {
    ::localtime_r(&seconds, &parts);
  }
  return parts;
}

Time Calendar::DaysLater(Time from, int days, Duration length) const {
  std::tm parts = PartsOf(from, utc_);
  parts.tm_mday += days;
  // Adds the length to the date and time on the clock. mktime would add it as elapsed time.
  const auto seconds_longer = std::chrono::floor<std::chrono::seconds>(length);
  std::time_t seconds = ::timegm(&parts) + seconds_longer.count();
  if (!utc_) {
    ::gmtime_r(&seconds, &parts);
    parts.tm_isdst = -1;  // -1: let mktime decide, because summer time may begin in between
    seconds = ::mktime(&parts);
  }
  const Duration below =
      from.time_since_epoch() - std::chrono::floor<std::chrono::seconds>(from.time_since_epoch());
  return Time(std::chrono::seconds(seconds)) + below + (length - seconds_longer);
}

int Calendar::DayOfWeek(Time at) const {
  return PartsOf(at, utc_).tm_wday;
}

Duration Calendar::AheadOfUtc(Time at) const {
  return std::chrono::seconds(PartsOf(at, utc_).tm_gmtoff);
}

}  // namespace carma::base

// Calendar arithmetic on days and times of day, in the server's time zone or in UTC for simulated
// time.
#pragma once

#include <ctime>

#include "base/time.h"

namespace carma::base {

// Splits a time into year, month, day and so on, in UTC or in the server's time zone.
std::tm PartsOf(Time at, bool utc);

class Calendar {
 public:
  static Calendar OfServer() {
    return Calendar(false);
  }  // the server's local time, with summer time
  static Calendar Utc() { return Calendar(true); }

  // Returns the moment at which the clock shows the date and time of `from` plus `days` and
  // `length`, or the first moment after the gap if the clock skips that time.
  Time DaysLater(Time from, int days, Duration length = {}) const;
  // 0 for Sunday, 6 for Saturday.
  int DayOfWeek(Time at) const;
  // The UTC offset of local time at that moment.
  Duration AheadOfUtc(Time at) const;

 private:
  explicit Calendar(bool utc) : utc_(utc) {}
  bool utc_;
};

}  // namespace carma::base

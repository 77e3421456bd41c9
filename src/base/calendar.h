// Days and their times of day in a place: of the server, or of nowhere (UTC) where time is made up.
#pragma once

#include "base/time.h"

namespace carma::base {

class Calendar {
 public:
  static Calendar OfServer() { return Calendar(false); }  // its local time, with summer time
  static Calendar Utc() { return Calendar(true); }

  // The same time of day so many days later. A time that the clock skips there is the one that it
  // goes on with.
  Time DaysLater(Time from, int days) const;
  // 0: Sunday … 6: Saturday.
  int DayOfWeek(Time at) const;
  // How far its clocks are ahead of those of UTC at that moment.
  Duration AheadOfUtc(Time at) const;

 private:
  explicit Calendar(bool utc) : utc_(utc) {}
  bool utc_;
};

}  // namespace carma::base

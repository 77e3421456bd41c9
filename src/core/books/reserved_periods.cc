#include "core/books/reserved_periods.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/books/reservation_book.h"

namespace carma::core {
namespace {

constexpr Duration kDay = std::chrono::hours(24);
// Maximum number of periods to compute for one reservation.
constexpr std::size_t kMostPeriods = 100;
// Maximum number of days to skip because they have no period, such as weekends. It is never
// reached, because callers look at most five weeks ahead.
constexpr int kMostSkipped = 14;

bool IsWeekend(int day_of_week) {
  return day_of_week == 0 || day_of_week == 6;
}

// Days from the first period to the earliest period that might not have ended yet.
int FirstDay(const Reservation& booking, Time now, int step) {
  const auto days = (now - booking.from - booking.length) / kDay - 2;
  if (days <= 0) return 0;
  return static_cast<int>(days / step) * step;
}

std::vector<ReservedPeriod> TooFewOf(std::vector<ReservedPeriod> periods, Time now,
                                     std::span<const GpuInfo> gpus) {
  ReservationBook reservations;
  reservations.Follow(std::move(periods));
  reservations.Settle(now, Duration{0}, gpus,
                      [](const ReservedPeriod&, GpuIndex) { return ReservationBook::Standing{}; });
  return reservations.TooFew();
}

}  // namespace

std::vector<ReservedPeriod> PeriodsOf(const Reservation& booking, Time now, Time horizon,
                                      const base::Calendar& calendar) {
  std::vector<ReservedPeriod> periods;
  if (booking.repeat == Repeat::kOnce) {
    const Time to = booking.from + booking.length;
    if (to > now) periods.push_back({booking, booking.from, to});
    return periods;
  }
  const int step = booking.repeat == Repeat::kWeekly ? 7 : 1;
  int skipped = 0;
  for (int day = FirstDay(booking, now, step);
       periods.size() < kMostPeriods && skipped < kMostSkipped; day += step) {
    const Time from = calendar.DaysLater(booking.from, day);
    if (booking.until && from > *booking.until) break;
    if (from >= horizon && !periods.empty()) break;
    // Summer time may shorten or lengthen the period, or skip it if it begins in the skipped hour.
    const Time to = calendar.DaysLater(booking.from, day, booking.length);
    const bool counts = booking.repeat != Repeat::kWeekdays || !IsWeekend(calendar.DayOfWeek(from));
    if (!counts || to <= std::max(now, from)) {
      ++skipped;
      continue;
    }
    periods.push_back({booking, from, to});
  }
  return periods;
}

std::optional<std::string> WhyNotAll(const std::vector<ReservedPeriod>& periods, Time now,
                                     std::span<const GpuInfo> gpus,
                                     std::optional<ReservationId> newcomer) {
  std::vector<ReservedPeriod> before;
  for (const ReservedPeriod& each : periods) {
    if (newcomer && each.booking.id != *newcomer) before.push_back(each);
  }
  before = TooFewOf(std::move(before), now, gpus);
  const std::vector<ReservedPeriod> after = TooFewOf(periods, now, gpus);
  const auto few = std::ranges::find_if(after, [&](const ReservedPeriod& each) {
    return std::ranges::find(before, each) == before.end();
  });
  if (few == after.end()) return std::nullopt;
  return fmt::format(
      "reservation {} of {} for {}, starting {}, would not get its GPUs: there are not enough "
      "GPUs, or other reservations hold them",
      few->booking.id, WhichOf(few->booking), WhomFor(few->booking), base::FormatTime(few->from));
}

}  // namespace carma::core

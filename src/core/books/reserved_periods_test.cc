#include "core/books/reserved_periods.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "base/text.h"
#include "core/books/reservation_book.h"

namespace carma::core {
namespace {

constexpr Duration kOneHour{3'600'000};
constexpr Duration kDay = 24 * kOneHour;
// 2026-03-25 is a Wednesday. In Berlin, summer time begins on Sunday the 29th.
constexpr Time kWednesdayNine = base::FromMs(1'774'425'600'000);  // 08:00 UTC, 09:00 in Berlin

class ReservedPeriodsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    ::tzset();
  }
  void TearDown() override {
    ::unsetenv("TZ");
    ::tzset();
  }
};

std::string Begins(const std::vector<ReservedPeriod>& periods) {
  std::string text;
  for (const ReservedPeriod& each : periods)
    text += (text.empty() ? "" : " ") + base::FormatTimeIso(each.from).substr(5, 11);
  return text;
}

TEST_F(ReservedPeriodsTest, APeriodThatDoesNotRepeatEnds) {
  const Reservation booking{.from = kWednesdayNine, .length = 9 * kOneHour};
  const auto calendar = base::Calendar::OfServer();
  EXPECT_EQ(PeriodsOf(booking, kWednesdayNine - kDay, kWednesdayNine, calendar).size(), 1u);
  EXPECT_EQ(PeriodsOf(booking, kWednesdayNine + 8 * kOneHour, kWednesdayNine, calendar).size(), 1u);
  EXPECT_TRUE(PeriodsOf(booking, kWednesdayNine + 9 * kOneHour, kWednesdayNine, calendar).empty());
}

TEST_F(ReservedPeriodsTest, TimeOfDayStaysTheSameWhenSummerTimeBegins) {
  const Reservation booking{
      .from = kWednesdayNine, .length = 9 * kOneHour, .repeat = Repeat::kWeekdays};
  const auto periods =
      PeriodsOf(booking, kWednesdayNine, kWednesdayNine + 7 * kDay, base::Calendar::OfServer());
  EXPECT_EQ(Begins(periods),
            "03-25T08:00 03-26T08:00 03-27T08:00 03-30T07:00 03-31T07:00 04-01T07:00");
  EXPECT_EQ(periods.back().to - periods.back().from, 9 * kOneHour);
  EXPECT_EQ(Begins(PeriodsOf(booking, kWednesdayNine + 3 * kDay, kWednesdayNine + 3 * kDay,
                             base::Calendar::Utc())),
            "03-30T08:00")
      << "at least the next one";
}

TEST_F(ReservedPeriodsTest, PeriodsEndAtTheSameTimeOfDayWhenTheClockChanges) {
  Reservation booking{
      .from = kWednesdayNine - 9 * kOneHour, .length = kDay, .repeat = Repeat::kDaily};
  const Time saturday = booking.from + 3 * kDay;
  const auto calendar = base::Calendar::OfServer();
  const auto periods = PeriodsOf(booking, saturday, saturday + 2 * kDay, calendar);
  ASSERT_EQ(Begins(periods), "03-27T23:00 03-28T23:00 03-29T22:00");
  EXPECT_EQ(periods[0].to, periods[1].from);
  EXPECT_EQ(periods[1].to, periods[2].from) << "the day of 23 hours";
  EXPECT_EQ(periods[2].to - periods[2].from, kDay);

  Reservation sunday = booking;
  sunday.from += 4 * kDay;
  const auto from_sunday = PeriodsOf(sunday, saturday, saturday + 2 * kDay, calendar);
  ASSERT_EQ(Begins(from_sunday), "03-28T23:00 03-29T22:00");
  EXPECT_EQ(from_sunday[0].to, from_sunday[1].from) << "the first day has 23 hours";
  EXPECT_EQ(from_sunday[1].to - from_sunday[1].from, kDay);

  booking.from += 5 * kOneHour / 2;
  booking.length = kOneHour / 2;
  EXPECT_EQ(Begins(PeriodsOf(booking, saturday, saturday + 3 * kDay, calendar)),
            "03-28T01:30 03-30T00:30")
      << "on the 29th, there is no time between 02:30 and 03:00";
}

TEST_F(ReservedPeriodsTest, WeeklyPeriodsRepeatUntilTheirLastTime) {
  Reservation booking{.from = kWednesdayNine, .length = 2 * kOneHour, .repeat = Repeat::kWeekly};
  const Time later = kWednesdayNine + 1000 * kDay;  // a Tuesday
  EXPECT_EQ(Begins(PeriodsOf(booking, later, later + 10 * kDay, base::Calendar::Utc())),
            "12-20T08:00 12-27T08:00");
  booking.until = kWednesdayNine + 7 * kDay;
  EXPECT_EQ(PeriodsOf(booking, kWednesdayNine, later, base::Calendar::Utc()).size(), 2u);
  EXPECT_TRUE(PeriodsOf(booking, later, later + kDay, base::Calendar::Utc()).empty());
}

TEST_F(ReservedPeriodsTest, FindsConflicts) {
  const std::vector<GpuInfo> gpus{{.uuid = "GPU-0", .type = "A100", .total_mib = 40'000},
                                  {.uuid = "GPU-1", .type = "A100", .total_mib = 40'000},
                                  {.uuid = "GPU-2", .type = "T4", .total_mib = 15'000}};
  const auto of = [](std::uint64_t id, int from_h, int to_h, Reservation booking) {
    booking.id = ReservationId{id};
    booking.from = Time{} + from_h * kOneHour;
    booking.length = (to_h - from_h) * kOneHour;
    return ReservedPeriod{booking, booking.from, booking.from + booking.length};
  };
  const ReservedPeriod both = of(1, 1, 3, {.gpu_type = "a100", .count = 2});
  EXPECT_FALSE(WhyNotAll({both}, Time{}, gpus));
  EXPECT_FALSE(WhyNotAll({both, of(2, 2, 4, {.count = 1})}, Time{}, gpus)) << "the other type";
  EXPECT_FALSE(WhyNotAll({both, of(2, 3, 4, {})}, Time{}, gpus)) << "afterwards";
  EXPECT_TRUE(WhyNotAll({both, of(2, 2, 4, {.on_gpus = {"GPU-1"}})}, Time{}, gpus));
  EXPECT_TRUE(WhyNotAll({of(1, 1, 2, {.count = 4})}, Time{}, gpus)) << "too few exist";
  EXPECT_TRUE(WhyNotAll({of(1, 1, 3, {.on_gpus = {"GPU-0"}}), of(2, 2, 4, {})}, Time{}, gpus));
  const ReservedPeriod too_many = of(1, 1, 2, {.count = 4});
  EXPECT_FALSE(WhyNotAll({too_many, of(2, 3, 4, {})}, Time{}, gpus, ReservationId{2}))
      << "the newcomer is not part of the conflict";
  EXPECT_TRUE(WhyNotAll({both, of(2, 2, 4, {})}, Time{}, gpus, ReservationId{2}));
  const ReservedPeriod next{both.booking, both.to - Duration{1}, both.to + Duration{9}};
  EXPECT_FALSE(WhyNotAll({both, next}, Time{}, gpus)) << "periods of the same reservation";
}

TEST(ReservationBook, AdmitsTheSameTasksAsTheReservations) {
  std::vector<ReservedPeriod> periods;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    Reservation each{.id = ReservationId{id}, .from = kWednesdayNine, .length = kOneHour};
    if (id <= 2) each.users = {"ada", "ben", "ada"};
    if (id % 2 == 0) each.accounts = {"vision"};
    if (id == 3) each.classes = {"urgent"};
    for (int day = 0; day < 3; ++day)
      periods.push_back({each, each.from + day * kDay, each.from + day * kDay + kOneHour});
  }
  ReservationBook book;
  book.Follow(periods);
  for (const std::string user : {"ada", "cid"}) {
    for (const auto& account :
         {std::optional<std::string>(), std::optional<std::string>("vision")}) {
      for (const auto& qos : {std::optional<std::string>(), std::optional<std::string>("urgent")}) {
        const TaskRequest request{.user = user, .account = account, .qos = qos};
        std::vector<ReservationId> expected;
        for (std::size_t i = 0; i < periods.size(); i += 3) {
          if (IsFor(periods[i].booking, request)) expected.push_back(periods[i].booking.id);
        }
        EXPECT_EQ(book.Of(request), expected) << user;
      }
    }
  }
  book.Follow({});
  EXPECT_TRUE(book.Of({.user = "ada"}).empty());
}

}  // namespace
}  // namespace carma::core

#include "lab/sim/reservation_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/sim/simulate.h"

namespace carma::sim {
namespace {

using base::Duration;
using core::Time;
using std::chrono::hours;
using std::chrono::minutes;

TEST(ParseReservation, ReadsTheWordsOfCarmaReserve) {
  const auto booking =
      ParseReservation("for=ada,bob gpus=0,1 from=9h for-time=8h repeat=weekdays until=30d");
  ASSERT_TRUE(booking) << booking.error().message;
  EXPECT_EQ(booking->users, (std::vector<std::string>{"ada", "bob"}));
  EXPECT_EQ(booking->on_gpus, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(booking->from, Time{hours(9)});
  EXPECT_EQ(booking->length, hours(8));
  EXPECT_EQ(booking->repeat, core::Repeat::kWeekdays);
  EXPECT_EQ(booking->until, Time{hours(30 * 24)});
  const auto nobody = ParseReservation("for=nobody  count=2 type=a100 from=1d to=36h");
  ASSERT_TRUE(nobody) << nobody.error().message;
  EXPECT_TRUE(nobody->users.empty());
  EXPECT_EQ(nobody->count, 2);
  EXPECT_EQ(nobody->gpu_type, "a100");
  EXPECT_EQ(nobody->length, hours(12));
}

TEST(ParseReservation, ReadsTimesOfDay) {
  const std::tuple<const char*, Duration, Duration> cases[] = {
      {"from=14:00 to=18:00", hours(14), hours(4)},
      {"from=9:30 to=09:45:00", minutes(570), minutes(15)},
      {"from=14:00 to=+4h", hours(14), hours(4)},
      {"to=06:00 from=22:00", hours(22), hours(8)},
      {"from=1-22:00 to=06:00", hours(46), hours(8)},
      {"to=+4h from=+1d", hours(24), hours(4)},
      {"from=1-09:00 to=1-17:00", hours(33), hours(8)},
  };
  for (const auto& [text, from, length] : cases) {
    const auto booking = ParseReservation(std::string("for=ada gpus=0 ") + text);
    ASSERT_TRUE(booking) << text << ": " << booking.error().message;
    EXPECT_EQ(booking->from, Time{from}) << text;
    EXPECT_EQ(booking->length, length) << text;
  }
}

TEST(ParseReservation, NamesTheExpectedForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected users"},
      {"for=ada from=1h for-time=1h", "expected GPUs"},
      {"for=ada gpus=all from=1h", "either to= or for-time="},
      {"for=ada gpus=all from=1h to=2h for-time=1h", "either to= or for-time="},
      {"for=ada gpus=all from=2h to=1h", "shorter than a minute"},
      {"for=ada gpus=all from=soon to=1h", "from: expected a time span"},
      {"for=ada gpus=all from=9999d to=99999d", "from: expected a time span of at most ten years"},
      {"for=ada gpus=all from=1h for-time=1d repeat=daily", "repeats before it is over"},
      {"for=ada gpus=all account=vision from=1h to=2h", "expected words like"},
      {"for=ada gpus=all count=0 from=1h to=2h", "count: expected a number"},
      {"for=ada,,bob gpus=all from=1h to=2h", "for: expected users"},
  };
  for (const auto& [text, says] : cases) {
    const auto booking = ParseReservation(text);
    ASSERT_FALSE(booking) << text;
    EXPECT_THAT(booking.error().message, ::testing::HasSubstr(says));
  }
}

TEST(PeriodsOfReservations, StartOnAMonday) {
  std::vector<core::Reservation> reservations{
      *ParseReservation("for=ada gpus=0 from=9h for-time=8h repeat=weekdays")};
  reservations[0].id = core::ReservationId{1};
  const Time first{minutes(7)};
  std::vector<int> days;
  for (const core::ReservedPeriod& each :
       PeriodsOf(reservations, first, first, first + hours(8 * 24))) {
    const Duration after = each.from - first;
    EXPECT_EQ(after % hours(24), hours(9));
    days.push_back(static_cast<int>(after / hours(24)));
  }
  EXPECT_EQ(days, (std::vector<int>{0, 1, 2, 3, 4, 7}));
}

// ---- reservations in a run ----

class Reserved : public ::testing::Test {
 protected:
  Reserved() {
    work_.solo_s = 1'000;
    work_.id = "work";
    work_.sm_active = {0.01};
    work_.memory_mib = {4'000};
    options_.estimates.source = "oracle";
    options_.policy.mapper = "exclusive";
    options_.policy.booking_lead = hours(1);
    options_.record = true;
  }
  void Reserve(std::string_view text) { options_.reservations.push_back(*ParseReservation(text)); }
  void Submit(Duration at, std::string user) {
    arrivals_.push_back({.at = at, .workload = &work_, .user = std::move(user)});
  }
  // The start of each task, in seconds after the first submission, and its GPU.
  std::vector<std::pair<double, int>> Play() {
    const auto run = Simulate(*ParseCluster(servers_), arrivals_, options_);
    EXPECT_TRUE(run) << run.error().message;
    std::vector<std::pair<double, int>> starts;
    if (!run) return starts;
    for (const report::RunTask& task : run->record->tasks) {
      starts.emplace_back(base::Seconds(task.attempts[0].started - run->record->from),
                          task.attempts[0].gpus[0]);
    }
    return starts;
  }

  std::string servers_ = "2xA100-40GB";
  trace::Workload work_;
  RunOptions options_;
  std::vector<Arrival> arrivals_;
};

TEST_F(Reserved, ReservedGpusAreOnlyForTheirUsers) {
  Reserve("for=ada gpus=0 from=30m for-time=2h");
  // Bob's task ends long before the reservation, but it has no time limit, so it could run into the
  // lead time.
  Submit(Duration{0}, "bob");
  Submit(Duration{0}, "bob");
  Submit(hours(1), "bob");
  Submit(hours(1), "ada");
  Submit(hours(1), "bob");
  const std::vector<std::pair<double, int>> starts = Play();
  EXPECT_EQ(starts[0], (std::pair{0.0, 1}));
  EXPECT_NEAR(starts[1].first, 1'014, 1);
  EXPECT_EQ(starts[1].second, 1);
  EXPECT_EQ(starts[2], (std::pair{3'600.0, 1}));
  EXPECT_EQ(starts[3], (std::pair{3'600.0, 0}));
  EXPECT_EQ(starts[4].second, 1);
}

TEST_F(Reserved, RepeatsAndWaitingTasksStartAfterwards) {
  Reserve("for=nobody gpus=all from=1h for-time=2h repeat=daily");
  Submit(Duration{0}, "ada");
  Submit(hours(24 * 20) + minutes(90), "ada");  // beyond the periods that are sent initially
  options_.policy.booking_lead = Duration{0};
  const std::vector<std::pair<double, int>> starts = Play();
  EXPECT_EQ(starts[0].first, 0);
  EXPECT_EQ(starts[1].first, 20 * 86'400 + 3 * 3'600);
  // The result is the same with Placing::kAsked.
  options_.above.placing = Placing::kAsked;
  EXPECT_NEAR(Play()[1].first, 20 * 86'400 + 3 * 3'600, 10);
}

TEST_F(Reserved, ApplyFromTheirFirstMomentWithoutALead) {
  Reserve("for=nobody gpus=all from=1h for-time=2h");
  Submit(Duration{0}, "ada");
  Submit(hours(1), "ada");
  options_.policy.booking_lead = Duration{0};
  EXPECT_EQ(Play()[1].first, 3 * 3'600);
}

TEST_F(Reserved, RefusesReservationsThatConflict) {
  Submit(Duration{0}, "ada");
  Reserve("for=ada gpus=0 from=1h for-time=2h");
  Reserve("for=bob count=2 from=2h for-time=2h");
  const auto run = Simulate(*ParseCluster(servers_), arrivals_, options_);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, ::testing::HasSubstr("would not get its GPUs"));
  // The hour between two reservations is shorter than the lead time, so a task without a time limit
  // would never start.
  options_.policy.booking_lead = hours(2);
  options_.reservations = {
      *ParseReservation("for=nobody gpus=all from=0s for-time=23h repeat=daily")};
  const auto never = Simulate(*ParseCluster(servers_), arrivals_, options_);
  ASSERT_FALSE(never);
  EXPECT_THAT(never.error().message, ::testing::HasSubstr("reservations leave no time"));
}

}  // namespace
}  // namespace carma::sim

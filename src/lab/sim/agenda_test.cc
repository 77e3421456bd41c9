#include "lab/sim/agenda.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace carma::sim {
namespace {

using base::FromMs;

TEST(Agenda, KeepsTheTimersOfRunServersAndTasksApart) {
  Agenda agenda(2);
  const std::vector<std::pair<Due, std::uint32_t>> timers{
      {Due::kArrivals, 0}, {Due::kAbove, 0},   {Due::kReservations, 0},
      {Due::kWake, 0},     {Due::kSamples, 1}, {Due::kTick, 1},
      {Due::kWake, 1},     {Due::kTask, 0},    {Due::kTask, 70}};
  for (std::size_t i = 0; i < timers.size(); ++i)
    agenda.Set(FromMs(static_cast<std::int64_t>(i)), timers[i].first, timers[i].second);
  agenda.Clear(Due::kWake, 0);
  EXPECT_FALSE(agenda.IsSet(Due::kWake, 0));
  EXPECT_TRUE(agenda.IsSet(Due::kWake, 1));
  for (std::size_t i = 0; i < timers.size(); ++i) {
    if (timers[i] == std::pair{Due::kWake, 0u}) continue;
    const Agenda::Event event = agenda.Next();
    EXPECT_EQ(event.due, timers[i].first) << i;
    EXPECT_EQ(event.index, timers[i].second) << i;
    EXPECT_EQ(agenda.now(), FromMs(static_cast<std::int64_t>(i)));
  }
  EXPECT_TRUE(agenda.empty());
}

TEST(Agenda, ObservationsComeBeforeTheChangesOfTheSameMoment) {
  Agenda agenda(1);
  agenda.Set(FromMs(5), Due::kTask, 3);
  agenda.Set(FromMs(5), Due::kWake, 0);
  agenda.Set(FromMs(5), Due::kTick, 0);
  EXPECT_EQ(agenda.Next().due, Due::kTick);
  EXPECT_EQ(agenda.Next().due, Due::kTask);
  EXPECT_EQ(agenda.Next().due, Due::kWake);
}

TEST(Agenda, ATimerHasOneEvent) {
  Agenda agenda(1);
  agenda.Set(FromMs(10), Due::kTask, 7);
  agenda.Set(FromMs(30), Due::kTask, 7);
  agenda.Set(FromMs(20), Due::kTask, 8);
  EXPECT_EQ(agenda.Next().index, 8u);
  agenda.Clear(Due::kTask, 7);
  agenda.Clear(Due::kTask, 7);
  agenda.Clear(Due::kTask, 99);
  EXPECT_TRUE(agenda.empty());
  EXPECT_FALSE(agenda.IsSet(Due::kTask, 7));
}

TEST(Agenda, AgreesWithASortedMap) {
  base::Rng rng(3);
  Agenda agenda(1);
  std::map<std::uint32_t, std::pair<base::Time, std::uint64_t>> plain;
  std::uint64_t sequence = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto timer = static_cast<std::uint32_t>(rng.Below(200));
    const std::uint64_t what = rng.Below(4);
    if (what < 2) {
      const base::Time when = FromMs(static_cast<std::int64_t>(rng.Below(50)));
      agenda.Set(when, Due::kTask, timer);
      plain[timer] = {when, ++sequence};
    } else if (what == 2) {
      agenda.Clear(Due::kTask, timer);
      plain.erase(timer);
    } else if (!plain.empty()) {
      auto first = plain.begin();
      for (auto each = plain.begin(); each != plain.end(); ++each) {
        if (each->second < first->second) first = each;
      }
      ASSERT_EQ(agenda.Next().index, first->first);
      ASSERT_EQ(agenda.now(), first->second.first);
      plain.erase(first);
    }
    ASSERT_EQ(agenda.empty(), plain.empty());
  }
}

}  // namespace
}  // namespace carma::sim

#include "lab/sim/agenda.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

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

}  // namespace
}  // namespace carma::sim

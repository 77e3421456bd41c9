// Tests of time slices, checkpoints and classes in simulated runs: which tasks are interrupted, and
// how much work that costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;
using ::testing::HasSubstr;

// Two tasks of 1000 s alternate every 500 s on one GPU.
RunOptions Slots() {
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.checkpoints.every = Duration{300'000};
  options.time_slot = Duration{500'000};
  return options;
}

TEST(SimulateSlots, AStoppedTaskContinuesFromItsLastCheckpoint) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const RunResult run = Play(MakeWorld("A100-40GB"), two, Slots());
  EXPECT_EQ(run.totals.succeeded, 2);
  const report::RunTask& first = run.record->tasks[0];
  ASSERT_EQ(first.attempts.size(), 3u);
  EXPECT_EQ(first.attempts[0].end, report::AttemptEnd::kStopped);
  EXPECT_EQ(first.attempts[0].ended - first.attempts[0].started, Duration{502'000});
  // The first time slice saves 300 s of work, and the second saves another 300 of its 486 s. 400 s
  // remain for the third.
  EXPECT_EQ(first.attempts[1].end, report::AttemptEnd::kStopped);
  EXPECT_EQ(first.attempts[2].ended - first.attempts[2].started, Duration{14'000 + 400'000});
  EXPECT_NEAR(*first.solo_s, 414, 1e-9) << "solo time of the attempt that succeeded";
  EXPECT_NEAR(*first.whole_solo_s, 1'014, 1e-9);
  EXPECT_NEAR(MeasuresOf(run).slowdown->mean, 1, 1e-9);
  // The tasks alternate.
  EXPECT_GE(run.record->tasks[1].attempts[0].started, first.attempts[0].ended);
  EXPECT_GE(first.attempts[1].started, run.record->tasks[1].attempts[0].ended);
}

TEST(SimulateSlots, ACheckpointTakesTimeAndOneOnStopLosesNothing) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.checkpoints = {.every = Duration{300'000}, .cost = Duration{20'000}};
  const std::vector<Arrival> one{{Duration{0}, &workload}};
  // The task saves after 300, 600 and 900 s of run time.
  EXPECT_NEAR(Play(MakeWorld("A100-40GB"), one, options).totals.makespan_s, 14 + 1'000 + 60, 0.01);

  options = Slots();
  options.checkpoints = {.cost = Duration{20'000}, .on_stop = true};
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  const report::RunTask& first = run.record->tasks[0];
  ASSERT_EQ(first.attempts.size(), 3u);
  EXPECT_EQ(first.attempts[0].ended - first.attempts[0].started, Duration{522'000});
  EXPECT_EQ(first.attempts[2].ended - first.attempts[2].started, Duration{14'000 + 28'000});
}

TEST(SimulateSlots, ATaskSavesAndMakesRoomAtTheEndOfItsTimeSlice) {
  const trace::Workload work = MakeWorkload("long", 1, 10'000, 0.3, 10'000);
  const trace::Workload look = MakeWorkload("short", 1, 100, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.slots = {.length = Duration{1'000'000}, .notice = Duration{100'000}};
  options.checkpoints = {.cost = Duration{20'000}, .on_stop = true};
  const std::vector<Arrival> two{{Duration{0}, &work}, {Duration{500'000}, &look}};
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(run.totals.succeeded, 2);
  const report::RunTask& first = run.record->tasks[0];
  ASSERT_EQ(first.attempts.size(), 2u);
  // The task is asked to save 900 s after its start, saves for 20 s and takes 2 s to exit.
  EXPECT_EQ(first.attempts[0].ended - first.attempts[0].started, Duration{922'000});
  EXPECT_EQ(first.attempts[1].ended - first.attempts[1].started,
            Duration{14'000 + 10'000'000 - (900'000 - 14'000)});
  EXPECT_EQ(first.lost_s, 20 + 14);
  EXPECT_EQ(run.record->tasks[1].attempts.size(), 1u);
  EXPECT_FALSE(run.record->tasks[1].lost_s);

  // A task that saves periodically is stopped and repeats its unsaved work. A task that never saves
  // keeps its GPU.
  options.checkpoints = {.every = Duration{300'000}};
  const RunResult again = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(again.record->tasks[0].attempts[0].ended - again.record->tasks[0].attempts[0].started,
            Duration{1'002'000});
  EXPECT_EQ(again.record->tasks[0].lost_s, 14 + 86);
  options.checkpoints = {};
  const RunResult stays = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(stays.record->tasks[0].attempts.size(), 1u);
}

TEST(SimulateSlots, APreemptingClassStartsAtOnce) {
  const trace::Workload work = MakeWorkload("long", 1, 10'000, 0.3, 10'000);
  const trace::Workload look = MakeWorkload("short", 1, 100, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.classes = {{.name = "urgent", .priority = 10, .preempts = true},
                            {.name = "spare", .priority = -10, .preemptible = true}};
  options.checkpoints = {.cost = Duration{20'000}, .on_stop = true};
  const std::vector<Arrival> two{{.at = Duration{0}, .workload = &work, .qos = "spare"},
                                 {.at = Duration{500'000}, .workload = &look, .qos = "urgent"}};
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(run.record->tasks[0].attempts.size(), 2u);
  // The urgent task waits while the spare task saves (20 s) and exits (2 s).
  EXPECT_EQ(run.record->tasks[1].attempts[0].started,
            run.record->tasks[1].submitted + Duration{22'000});
  options.policy.classes.clear();
  const auto unknown = Simulate(MakeWorld("A100-40GB"), two, options);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("qos: expected one of normal"));
}

TEST(SimulateSlots, WaitingTasksHaveExpectedStarts) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 300);
  for (const std::string_view mapper : {"exclusive", "magm"}) {
    RunOptions options = Immediate();
    options.policy.mapper = mapper;
    options.estimates.profiles = EstimateOptions::Profiles::kMeasured;
    options.estimates.durations = true;
    double waited_s = 0, wrong_s = 0;
    int told = 0;
    options.on_start = [&](const ToldStart& start) {
      ASSERT_TRUE(start.told.likely);
      ++told;
      waited_s += base::Seconds(start.started - start.submitted);
      wrong_s += std::abs(base::Seconds(*start.told.likely - start.started));
    };
    Play(MakeWorld("4xA100-40GB"), arrivals, options);
    EXPECT_GT(told, 150) << mapper;
    EXPECT_LT(wrong_s, 0.2 * waited_s)
        << mapper << ": " << wrong_s / told << " s of " << waited_s / told;
  }
}

TEST(SimulateSlots, ATaskThatNeverSavesFinishesInEverLongerSlices) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.slots = {.length = Duration{100'000},
                          .notice = Duration{10'000},
                          .without_checkpoint = core::WithoutCheckpoint::kEnd};
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(run.totals.succeeded, 2);
  // Time slices of 100, 100, 200, 400, 800 and 1600 s.
  EXPECT_EQ(run.record->tasks[0].attempts.size(), 6u);
}

TEST(SimulateSlots, ARunWithoutProgressEndsWithAdvice) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.slots = {.length = Duration{10'000}, .notice = Duration{1'000}};
  options.checkpoints = {.on_stop = true};  // on_stop only works once the task has loaded
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const auto run = Simulate(MakeWorld("A100-40GB"), two, options);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr("no progress: the last 1201 attempts"));
  EXPECT_THAT(run.error().message, HasSubstr("slots.length"));
}

TEST(SimulateSlots, ATaskThatWouldLoseEverythingIsNotSentBack) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Slots();
  options.checkpoints = {};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), std::vector<Arrival>(2, {Duration{0}, &workload}), options);
  EXPECT_EQ(run.totals.attempts, 2);
}

TEST(SimulateSlots, ACrashLosesTheWorkSinceTheLastCheckpoint) {
  const trace::Workload small = MakeWorkload("small", 1, 5'000, 0.0, 20'000);
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.3, 24'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  options.memory.first_share = 0.5;
  options.memory.ramp = Duration{400'000};
  options.checkpoints.every = Duration{200'000};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &small}, {Duration{500'000}, &large}}, options);
  const std::vector<report::Attempt>& attempts = run.record->tasks[1].attempts;
  EXPECT_EQ(attempts[0].end, report::AttemptEnd::kOutOfMemory);
  EXPECT_EQ(attempts.back().end, report::AttemptEnd::kSucceeded);
  EXPECT_LT(attempts.back().ended - attempts.back().started, Duration{1'000'000});
}

}  // namespace
}  // namespace carma::sim

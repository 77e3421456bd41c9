// Tests that later simulated tasks benefit from the observations of earlier tasks.
#include <gtest/gtest.h>

#include <vector>

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;

RunOptions Learning() {
  RunOptions options = Immediate();
  options.policy.floor_mib = 0;
  options.estimates.source = "none";
  options.estimates.method = "auto";
  return options;
}

TEST(SimulateLearning, LaterTasksLearnFromAFinishedTaskOfTheirWorkload) {
  const trace::Workload known = MakeWorkload("known", 1, 1'000, 0.3, 25'000);
  const trace::Workload other = MakeWorkload("other", 1, 1'000, 0.3, 5'000);
  const std::vector<Arrival> arrivals{
      {Duration{0}, &known}, {Duration{2'000'000}, &known}, {Duration{4'000'000}, &other}};
  const RunResult run = Play(MakeWorld("A100-40GB"), arrivals, Learning());
  ASSERT_EQ(run.taught.size(), 3u);
  EXPECT_EQ(run.taught[0].method, "") << "nothing was known";
  EXPECT_EQ(run.taught[0].measured_mib, 25'000);
  EXPECT_EQ(run.taught[1].method, "history");
  EXPECT_EQ(run.taught[1].promised_mib, 27'500);
  EXPECT_EQ(run.taught[2].method, "") << "another program";
  EXPECT_EQ(run.taught[0].gpu_type, "A100-40GB");

  RunOptions forgetful = Learning();
  forgetful.estimates.learns = false;
  EXPECT_TRUE(Play(MakeWorld("A100-40GB"), arrivals, forgetful).taught.empty());
}

TEST(SimulateLearning, LearnsALowerBoundFromRunningOutOfMemory) {
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.3, 25'000);
  const std::vector<Arrival> arrivals{
      {Duration{0}, &large}, {Duration{500'000}, &large}, {Duration{4'000'000}, &large}};
  RunOptions options = Learning();
  options.memory.first_share = 0.5;
  options.memory.ramp = Duration{400'000};
  const RunResult run = Play(MakeWorld("A100-40GB"), arrivals, options);
  EXPECT_GE(run.totals.oom_crashes, 1);
  EXPECT_TRUE(run.taught[0].ran_out) << "it crashed after its memory had grown";
  EXPECT_LT(run.taught[0].measured_mib, 25'000);
  EXPECT_EQ(run.taught.back().method, "history");
}

TEST(SimulateLearning, ALaterRunUsesTheLessonsOfAnEarlierOne) {
  const trace::Workload half = MakeWorkload("half", 1, 1'000, 0.3, 25'000);
  const std::vector<Arrival> arrivals(4, {Duration{0}, &half});
  RunOptions options = Learning();
  const RunResult first = Play(MakeWorld("2xA100-40GB"), arrivals, options);
  EXPECT_GE(first.totals.oom_crashes, 1);
  options.estimates.taught = std::make_shared<const std::vector<task::Observation>>(first.taught);
  const RunResult second = Play(MakeWorld("2xA100-40GB"), arrivals, options);
  EXPECT_EQ(second.totals.oom_crashes, 0);
  EXPECT_EQ(second.taught.size(), first.taught.size() + 4);
}

TEST(SimulateLearning, AUsersTasksLearnOnlyFromThatUsersTasks) {
  const trace::Workload half = MakeWorkload("half", 1, 1'000, 0.3, 25'000);
  const Duration later{5'000'000};
  const std::vector<Arrival> arrivals{{.at = Duration{0}, .workload = &half, .user = "ada"},
                                      {.at = later, .workload = &half, .user = "ada"},
                                      {.at = later * 2, .workload = &half, .user = "bob"}};
  const RunResult run = Play(MakeWorld("A100-40GB"), arrivals, Learning());
  ASSERT_EQ(run.taught.size(), 3u);
  EXPECT_NE(run.taught[0].method, "history");
  EXPECT_EQ(run.taught[1].method, "history");
  EXPECT_NE(run.taught[2].method, "history");
}

TEST(SimulateLearning, MeasuredMemoryHasNoPredictionError) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Learning();
  options.estimates.sigma = 1;
  const RunResult run = Play(MakeWorld("A100-40GB"),
                             {{Duration{0}, &workload}, {Duration{2'000'000}, &workload}}, options);
  EXPECT_EQ(run.taught[1].promised_mib, 11'000);
}

TEST(SimulateLearning, TasksLearnFromCrashesOfTheirWorkload) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 120);
  RunOptions options;
  options.estimates.source = "none";
  options.policy.sm_cap.reset();
  const Totals learning = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals;
  options.policy.plateau_after.reset();
  const Totals before = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals;
  EXPECT_GT(learning.oom_crashes, 0);
  EXPECT_LT(learning.oom_crashes * 2, before.oom_crashes);
}

}  // namespace
}  // namespace carma::sim

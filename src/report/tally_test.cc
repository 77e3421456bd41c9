#include "report/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/made_run_test.h"

namespace carma::report {
namespace {

using ::testing::DoubleEq;
using ::testing::Optional;

core::Time TallyTime(std::int64_t s) {
  return base::FromMs(s * 1000);
}

TaskOutcome Ran(std::string_view group, std::int64_t submitted_s, std::int64_t ended_s,
                std::int64_t executed_s, std::optional<double> solo_s = {}) {
  return {.group = group,
          .submitted = TallyTime(submitted_s),
          .ended = TallyTime(ended_s),
          .executed = base::Duration(executed_s * 1000),
          .last_executed = base::Duration(executed_s * 1000),
          .solo_s = solo_s,
          .attempts = 1};
}

TEST(Tally, ComparesUsersByStretch) {
  EXPECT_DOUBLE_EQ(JainIndex({}), 1);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{5, 0}), 0.5);
  Tally tally;
  const auto of = [](std::string_view user, TaskOutcome task) {
    task.user = user;
    return task;
  };
  tally.Add(of("ada", Ran("", 0, 30, 20, 10.0)));  // three times as long as alone
  EXPECT_FALSE(tally.Finish().jain) << "one user cannot be compared";
  tally.Add(of("ada", Ran("", 0, 20, 20)));  // solo run time unknown, so its execution time is used
  TaskOutcome wide = of("bob", Ran("", 10, 110, 50, 50.0));
  wide.gpus = 2;
  tally.Add(wide);
  const Metrics m = tally.Finish();
  ASSERT_EQ(m.users.size(), 2u);
  EXPECT_EQ(m.users[0], (UserMetrics{"ada", 2, 40, 5, 2}));
  EXPECT_EQ(m.users[1], (UserMetrics{"bob", 1, 100, 50, 2}));
  EXPECT_THAT(m.jain, Optional(DoubleEq(1)));
  EXPECT_THAT(m.worst_user_waiting_s, Optional(DoubleEq(50)));
  EXPECT_EQ(FromJsonText(ToJsonText(m)).value(), m);
}

TEST(Tally, ComparesResumedTasksByTheirWholeWork) {
  Tally tally;
  // A task that takes 1 000 s alone. Its last attempt had 400 s of work left. It waited 900 s in
  // total.
  TaskOutcome task = Ran("", 0, 2'000, 1'100, 400.0);
  task.last_executed = base::Duration(400'000);
  task.whole_solo_s = 1'000;
  task.attempts = 2;
  for (const std::string_view user : {"ada", "bob"}) {
    task.user = user;
    tally.Add(task);
  }
  const Metrics m = tally.Finish();
  EXPECT_DOUBLE_EQ(m.users[0].stretch_mean, 2);
  EXPECT_DOUBLE_EQ(m.slowdown->mean, 1) << "only for the successful attempt";
}

TEST(Tally, LostTimeIsAShareOfAllExecution) {
  Tally tally;
  tally.Add(Ran("", 0, 30, 20));
  EXPECT_FALSE(tally.Finish().lost_share);
  TaskOutcome left = Ran("", 0, 100, 80);
  left.lost_s = 5;
  tally.Add(left);
  const Metrics m = tally.Finish();
  EXPECT_THAT(m.lost_share, Optional(DoubleEq(0.05)));
  EXPECT_EQ(FromJsonText(ToJsonText(m)).value(), m);
}

TEST(Tally, GroupsAddUpToTheWhole) {
  Tally tally;
  tally.Add(Ran("light", 0, 30, 20, 10.0));
  tally.Add(Ran("heavy", 10, 110, 100, 80.0));
  tally.Add(Ran("light", 20, 60, 10));
  tally.Add(TaskOutcome{
      .state = core::TaskState::kQueued, .group = "heavy", .submitted = TallyTime(500)});
  const Metrics m = tally.Finish();
  EXPECT_EQ(m.tasks, 4);
  EXPECT_EQ(m.executed, 3);
  EXPECT_DOUBLE_EQ(m.trace_total_s, 110);
  EXPECT_DOUBLE_EQ(m.waiting.mean, (10 + 0 + 30) / 3.0);
  EXPECT_DOUBLE_EQ(m.execution.max, 100);
  ASSERT_EQ(m.groups.size(), 2u);
  EXPECT_EQ(m.groups[0].name, "heavy");
  EXPECT_EQ(m.groups[0].tasks, 2);
  EXPECT_EQ(m.groups[0].executed, 1);
  EXPECT_DOUBLE_EQ(m.groups[1].jct.mean, 35);
  // The slowdown includes only tasks whose solo run time is known.
  EXPECT_DOUBLE_EQ(m.groups[1].slowdown->mean, 2);
  EXPECT_DOUBLE_EQ(m.slowdown->mean, (2 + 1.25) / 2);
}

TEST(Tally, TakesSlowdownFromTheSuccessfulAttempt) {
  Tally tally;
  TaskOutcome recovered = Ran("", 0, 100, 60, 50.0);
  recovered.last_executed = base::Duration(55'000);
  tally.Add(recovered);
  TaskOutcome failed = Ran("", 0, 100, 5, 50.0);
  failed.state = core::TaskState::kFailed;
  tally.Add(failed);
  EXPECT_DOUBLE_EQ(tally.Finish().slowdown->max, 1.1);
  EXPECT_DOUBLE_EQ(tally.Finish().slowdown->median, 1.1);
}

TEST(Tally, DoesNotDependOnTheOrderOfTasks) {
  RunRecord run = Make({.tasks = 200});
  Tally forth, back;
  for (const RunTask& task : run.tasks) forth.Add(OutcomeOf(task));
  std::ranges::reverse(run.tasks);
  for (const RunTask& task : run.tasks) back.Add(OutcomeOf(task));
  EXPECT_EQ(forth.Finish(), back.Finish());
}

TEST(Tally, MatchesMetricsComputedAfterTheRun) {
  const RunRecord run = Make({.tasks = 100, .gpus = 3});
  Tally tally;
  for (std::size_t gpu = 0; gpu < run.gpus.size(); ++gpu) {
    const std::vector<GpuPoint>& points = run.gpus[gpu].points;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const core::Time end = i + 1 < points.size() ? points[i + 1].at : run.to;
      const base::Duration length = end - points[i].at;
      tally.Add(GpuSpan{.gpu = static_cast<int>(gpu),
                        .length = length,
                        .used_mib = points[i].used_mib,
                        .sm_active = points[i].sm_active,
                        .energy_j = points[i].power_w * base::Seconds(length)});
    }
  }
  for (const RunTask& task : run.tasks) tally.Add(OutcomeOf(task));
  Metrics expected = Compute(run);
  expected.label = expected.provenance = "";
  expected.simulated = false;
  EXPECT_EQ(tally.Finish(), expected);
}

TEST(Tally, OneUnknownSpanOfEnergyMakesTheSumUnknown) {
  Tally tally;
  tally.Add(Ran("", 0, 100, 100));
  tally.Add(GpuSpan{.gpu = 0, .length = base::Duration(60'000), .sm_active = 0.5, .energy_j = 100});
  EXPECT_THAT(tally.Finish().energy_mj, Optional(DoubleEq(1e-4)));
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  tally.Add(GpuSpan{
      .gpu = 0, .length = base::Duration(40'000), .sm_active = unknown, .energy_j = unknown});
  const Metrics m = tally.Finish();
  EXPECT_EQ(m.energy_mj, std::nullopt);
  EXPECT_THAT(m.sm_active, Optional(DoubleEq(0.5)));
  EXPECT_DOUBLE_EQ(m.gpu_coverage, 1);
}

TEST(Condense, KeepsMeansAndEnergy) {
  RunRecord run = Make({.tasks = 300, .gpus = 2});
  const Metrics before = Compute(run);
  Condense(run, 50);
  const Metrics after = Compute(run);
  for (const RunGpu& gpu : run.gpus) EXPECT_LE(gpu.points.size(), 50u);
  EXPECT_NEAR(*after.energy_mj, *before.energy_mj, 1e-9 * *before.energy_mj);
  EXPECT_NEAR(*after.sm_active, *before.sm_active, 1e-9);
  EXPECT_NEAR(*after.memory_used_mib, *before.memory_used_mib, 1e-6);
}

}  // namespace
}  // namespace carma::report

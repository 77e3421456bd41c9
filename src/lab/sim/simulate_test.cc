#include "lab/sim/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lab/sim/gpu_types.h"
#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;

TEST(Simulate, OneTaskAlone) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.5, 10'000);
  const RunResult run = Play(MakeWorld("4xA100-40GB"), {{Duration{0}, &workload}}, Immediate());
  // The first allocation comes after 14 s, then the task runs at full speed.
  EXPECT_DOUBLE_EQ(run.totals.makespan_s, 1'014);
  EXPECT_DOUBLE_EQ(MeasuresOf(run).execution.mean, 1'014);
  EXPECT_DOUBLE_EQ(MeasuresOf(run).waiting.mean, 0);
  EXPECT_DOUBLE_EQ(MeasuresOf(run).slowdown->mean, 1.0);
  EXPECT_EQ(run.totals.succeeded, 1);
  constexpr double active = 0.5;  // as measured when running alone, even though it is an MPS client
  EXPECT_NEAR(run.totals.sm_active, active * 1'000 / 1'014 / 4, 1e-9);
  EXPECT_NEAR(run.totals.memory_mib, 10'000.0 * 1'000 / 1'014 / 4, 1e-6);
  EXPECT_NEAR(run.totals.energy_j, PowerW({}, active) * 1'000 + PowerW({}, 0) * (3 * 1'014 + 14),
              1);
  ASSERT_EQ(run.record->tasks.size(), 1u);
  EXPECT_EQ(run.record->tasks[0].attempts[0].gpus, std::vector<int>{0});
}

TEST(Simulate, ATaskThatStaysAloneRunsWithoutMps) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.5, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  const RunResult run = Play(MakeWorld("A100-40GB"), {{Duration{0}, &workload}}, options);
  EXPECT_NEAR(run.totals.sm_active, 0.5 * 1'000 / 1'014, 1e-9);
  // kAlone gives the same results as the exclusive mapper, even for multi-GPU tasks.
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 40);
  const Totals by_mapper = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals;
  options.collocation = core::SharingMethod::kAlone;
  EXPECT_EQ(Play(MakeWorld("4xA100-40GB"), arrivals, options).totals, by_mapper);
}

TEST(Simulate, TwoTasksSlowEachOtherDownOnlyWhileBothRun) {
  const trace::Workload one = MakeWorkload("one", 1, 1'000, 0.4, 10'000);
  const trace::Workload two = MakeWorkload("two", 1, 1'500, 0.3, 10'000);
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &one}, {Duration{0}, &two}}, Immediate());
  // The slowdowns 1 + s * p are 1.15 and 1.2 until the first task ends; then the second runs alone.
  const double first_s = 1'000 * 1.15;
  const double second_s = first_s + (1'500 - first_s / 1.2);
  EXPECT_NEAR(base::Seconds(*run.record->tasks[0].ended - run.record->from), 14 + first_s, 0.002);
  EXPECT_NEAR(base::Seconds(*run.record->tasks[1].ended - run.record->from), 14 + second_s, 0.002);
}

TEST(Simulate, ATaskOnTwoGpusRunsAtThePaceOfTheSlowerOne) {
  const trace::Workload wide = MakeWorkload("wide", 2, 1'000, 0.2, 5'000);
  const trace::Workload other = MakeWorkload("other", 1, 5'000, 0.6, 5'000);
  RunOptions options = Immediate();
  options.policy.mapper = "first-fit";
  // Both tasks use GPU 0. The wide task could run at full speed on GPU 1, but the slower GPU sets
  // its pace.
  const RunResult run =
      Play(MakeWorld("2xA100-40GB"), {{Duration{0}, &wide}, {Duration{0}, &other}}, options);
  EXPECT_NEAR(base::Seconds(*run.record->tasks[0].ended - run.record->from), 14 + 1'000 * 1.3,
              0.002);
}

TEST(Simulate, AFasterGpuTakesLessTime) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.5, 10'000);
  const RunResult run = Play(MakeWorld("H100-80GB"), {{Duration{0}, &workload}}, Immediate());
  EXPECT_NEAR(run.totals.makespan_s, 14 + 1'000 / 2.61, 0.002);
  EXPECT_NEAR(MeasuresOf(run).slowdown->mean, 1.0, 1e-5);
  EXPECT_NEAR(*run.record->tasks[0].solo_s, run.totals.makespan_s, 0.002);
}

TEST(Simulate, SomeTasksFailByThemselves) {
  const trace::Workload workload = MakeWorkload("a", 1, 3'600, 0.3, 4'000);
  RunOptions options = Immediate();
  options.failures.per_hour = 1;
  const RunResult run =
      Play(MakeWorld("4xA100-40GB"), std::vector<Arrival>(200, {Duration{0}, &workload}), options);
  // Each task runs for one hour, so a share of 1 - exp(-1) fails on average.
  EXPECT_NEAR(static_cast<double>(run.totals.failed) / 200, 0.632, 0.1);
  EXPECT_EQ(run.totals.oom_crashes, 0);
}

TEST(Simulate, HandlesEmptyAndExtremeLoads) {
  const trace::Workload nothing = MakeWorkload("nothing", 1, 0, 0.3, 4'000);
  const trace::Workload huge = MakeWorkload("huge", 1, 100, 0.3, 60'000);
  const Cluster cluster = MakeWorld("2xA100-40GB");
  const Totals empty = Play(cluster, {}, Immediate()).totals;
  EXPECT_EQ(empty, Totals{});

  const Totals instant = Play(cluster, {{Duration{0}, &nothing}}, Immediate()).totals;
  EXPECT_DOUBLE_EQ(instant.makespan_s, 14);
  EXPECT_EQ(instant.succeeded, 1);

  const Totals never = Play(cluster, {{Duration{0}, &huge}}, Immediate()).totals;
  EXPECT_EQ(never.rejected, 1);
  EXPECT_EQ(never.attempts, 0);
  RunOptions watched = Immediate();
  std::string why;
  watched.on_task = [&why](const report::RunTask& task) { why = task.reason; };
  Play(cluster, {{Duration{0}, &huge}}, watched);
  EXPECT_NE(why, "");

  RunOptions blind = Immediate();
  blind.estimates.source = "none";
  const Totals tried = Play(cluster, {{Duration{0}, &huge}}, blind).totals;
  EXPECT_EQ(tried.failed, 1);
  EXPECT_GE(tried.oom_crashes, 1);
}

TEST(Simulate, RefusesInvalidOptions) {
  const trace::Workload wide = MakeWorkload("bert-8gpu", 8, 100, 0.3, 4'000);
  const trace::Workload pair = MakeWorkload("bert-2gpu", 2, 100, 0.3, 4'000);
  const trace::Workload fine = MakeWorkload("fine", 1, 100, 0.3, 4'000);
  const Cluster cluster = MakeWorld("4xA100-40GB");
  struct Case {
    std::string_view why;
    std::vector<Arrival> arrivals;
    void (*change)(RunOptions&);
    std::string_view message;
  };
  const auto nothing = [](RunOptions&) {};
  const std::vector<Arrival> one{{Duration{0}, &fine}};
  for (const Case& c : {
           Case{"more GPUs than any server has",
                {{Duration{0}, &fine}, {Duration{0}, &wide}},
                nothing,
                "task 2 (bert-8gpu): needs 8 GPUs, but the largest server has 4"},
           Case{"the same, for a task from a file",
                {{Duration{0}, &wide, std::nullopt, 17}},
                nothing,
                "line 17 (bert-8gpu): needs 8 GPUs"},
           Case{"time goes back",
                {{Duration{5}, &fine}, {Duration{4}, &fine}},
                nothing,
                "task 2 (fine): is submitted before the previous task"},
           Case{"a negative duration", {{Duration{0}, &fine, -1.0}}, nothing, "lasts -1 s"},
           Case{"estimator", one, [](RunOptions& o) { o.estimates.method = "crystal-ball"; },
                "unknown estimator 'crystal-ball'"},
           Case{"no period", one, [](RunOptions& o) { o.monitor.period = Duration{0}; },
                "monitor period"},
           Case{"instances", one,
                [](RunOptions& o) {
                  o.collocation = core::SharingMethod::kMig;
                  o.mig_instances = 5;
                },
                "mig_instances: expected 1, 2, 3 or 7, not 5"},
           Case{"several instances for one task",
                {{Duration{0}, &fine}, {Duration{0}, &pair}},
                [](RunOptions& o) { o.collocation = core::SharingMethod::kMig; },
                "task 2 (bert-2gpu): needs 2 GPUs, but a task can use only one MIG instance"},
           Case{"policy", one, [](RunOptions& o) { o.policy.mapper = "best"; }, "mapper"},
           Case{"a time slice that is too short", one,
                [](RunOptions& o) { o.time_slot = Duration{14'000}; }, "time slot: 14 s"},
           Case{"a spike that lasts until the next one", one,
                [](RunOptions& o) { o.memory.spike_lasts = o.memory.spike_every; },
                "memory spikes must be shorter"},
       }) {
    RunOptions options = Immediate();
    c.change(options);
    const Result<RunResult> result = Simulate(cluster, c.arrivals, options);
    ASSERT_FALSE(result) << c.why;
    EXPECT_NE(result.error().message.find(c.message), std::string::npos)
        << c.why << ": " << result.error().message;
  }
}

TEST(Simulate, EqualArgumentsGiveEqualRuns) {
  const Demo demo;
  const Cluster cluster = MakeWorld("2 * 4xA100-40GB");
  RunOptions options = Immediate();
  options.noise = 0.05;
  options.estimates.sigma = 0.3;
  const RunResult first = Play(cluster, demo.arrivals(), options);
  const RunResult second = Play(cluster, demo.arrivals(), options);
  EXPECT_EQ(first.totals, second.totals);
  EXPECT_TRUE(SameTasks(*first.record, *second.record));
  options.seed = 2;
  EXPECT_NE(Play(cluster, demo.arrivals(), options).totals, first.totals);
}

// A user who floods the queue does not delay others: the next free GPU goes to a user who has just
// arrived.
TEST(Simulate, AFloodDelaysANewUserOnlyUntilOneTaskEnds) {
  const trace::Workload workload = MakeWorkload("w", 1, 300, 1.0, 30'000);
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 10'000; ++i) arrivals.push_back({Duration{0}, &workload, 200 + i % 200});
  for (Arrival& each : arrivals) each.user = "flood";
  for (int i = 0; i < 4; ++i) {
    arrivals.push_back({Duration{7'200'000}, &workload});
    arrivals.back().user = "guest";
  }
  const auto longest_wait_s = [&](core::QueueOrder order) {
    RunOptions options = Immediate();
    options.policy.order = order;
    options.points_per_gpu = 10;
    const RunResult run = Play(MakeWorld("4xA100-40GB"), arrivals, options);
    double longest_s = 0;
    for (const report::RunTask& task : run.record->tasks) {
      if (task.user != "guest") continue;
      longest_s = std::max(longest_s, base::Seconds(task.attempts[0].started - task.submitted));
    }
    return longest_s;
  };
  EXPECT_GT(longest_wait_s(core::QueueOrder::kFifo), 600'000);
  EXPECT_LT(longest_wait_s(core::QueueOrder::kFair),
            2 * 420);  // each GPU becomes free within 420 s
}

TEST(AsPublished, SetsTheRulesOfThePublishedVersion) {
  const RunOptions thesis = *AsPublished("thesis", {});
  EXPECT_EQ(thesis.monitor.window, Duration{92'000});
  EXPECT_EQ(thesis.policy.pacing, core::Pacing::kThesis);
  EXPECT_EQ(AsPublished("v2", {})->monitor.window, Duration{30'000});
  EXPECT_FALSE(AsPublished("v3", {}));
}

}  // namespace
}  // namespace carma::sim

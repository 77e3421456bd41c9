// Tests of GPU memory in simulated runs: which tasks fit, and which crash.
#include <gtest/gtest.h>

#include <vector>

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;

TEST(SimulateMemory, ANewTaskThatDoesNotFitCrashesAndIsRetried) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 25'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  const RunResult run = Play(MakeWorld("A100-40GB"),
                             {{Duration{0}, &workload}, {Duration{1'000}, &workload}}, options);
  const report::RunTask& second = run.record->tasks[1];
  ASSERT_GE(second.attempts.size(), 2u);
  EXPECT_EQ(second.attempts[0].end, report::AttemptEnd::kOutOfMemory);
  // The task loads for 14 s, and its process exits 8 s after the failed allocation.
  EXPECT_EQ(second.attempts[0].ended - second.attempts[0].started, Duration{22'000});
  EXPECT_EQ(second.attempts.back().end, report::AttemptEnd::kSucceeded);
  EXPECT_EQ(run.totals.succeeded, 2);
  EXPECT_EQ(run.totals.oom_crashes, static_cast<std::int64_t>(second.attempts.size()) - 1);
}

TEST(SimulateMemory, ARampCanFailLate) {
  const trace::Workload small = MakeWorkload("small", 1, 5'000, 0.3, 20'000);
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.3, 24'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  options.memory.first_share = 0.5;
  options.memory.ramp = Duration{400'000};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &small}, {Duration{500'000}, &large}}, options);
  const report::Attempt& late = run.record->tasks[1].attempts[0];
  EXPECT_EQ(late.end, report::AttemptEnd::kOutOfMemory);
  // 20 000 MiB are used and 20 536 are free, so the fourth step of the ramp (21 000 MiB at 3/4)
  // does not fit.
  EXPECT_EQ(late.ended - late.started, Duration{14'000 + 300'000 + 8'000});
}

TEST(SimulateMemory, OnlyTheGrowingTaskCrashesOnAFullGpu) {
  const trace::Workload steady = MakeWorkload("steady", 1, 3'000, 0.3, 20'000);
  const trace::Workload spiky = MakeWorkload("spiky", 1, 9'000, 0.3, 20'000);
  RunOptions options = Immediate();
  options.memory.spike_share = 0.5;
  options.memory.spike_every = Duration{3'600'000};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &steady}, {Duration{0}, &spiky}}, options);
  EXPECT_EQ(run.record->tasks[0].attempts.size(), 1u);
  ASSERT_GE(run.record->tasks[1].attempts.size(), 1u);
  // The spike does not fit while the other task is running. On an otherwise empty GPU, it fits and
  // ends half a minute later.
  EXPECT_EQ(run.totals.oom_crashes,
            static_cast<std::int64_t>(run.record->tasks[1].attempts.size()) - 1);
  EXPECT_EQ(run.totals.succeeded, 2);
}

TEST(SimulateMemory, TheMpsLimitEndsATaskWithTooSmallAPromise) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.estimates.bias = -0.5;  // so 6065 MiB are promised
  const std::vector<Arrival> one{{Duration{0}, &workload}};
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), one, options).totals.oom_crashes, 0);
  options.mps_memory_limit = true;
  const RunResult run = Play(MakeWorld("A100-40GB"), one, options);
  EXPECT_EQ(Play(MakeWorld("2xA100-40GB"), one, options).totals.oom_crashes, 0)
      << "a server for two GPUs has no limit";
  // After the crash, the task is promised more memory.
  EXPECT_EQ(run.totals.oom_crashes, 1);
  EXPECT_EQ(run.totals.succeeded, 1);
  options.policy.margin_mib = 4'000;
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), one, options).totals.oom_crashes, 0);
  options.policy.margin_mib = 0;
  options.collocation = core::SharingMethod::kStreams;
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), one, options).totals.oom_crashes, 0) << "nothing enforces";
}

TEST(SimulateMemory, FragmentsAreLostToAllTasks) {
  const trace::Workload half = MakeWorkload("half", 1, 1'000, 0.3, 20'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  const std::vector<Arrival> both{{Duration{0}, &half}, {Duration{0}, &half}};
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), both, options).totals.oom_crashes, 0);
  options.memory.fragmentation_mib = 1'000;
  EXPECT_GE(Play(MakeWorld("A100-40GB"), both, options).totals.oom_crashes, 1);
}

TEST(SimulateMemory, AWrongPredictionPromisesAtMostTheWholeGpu) {
  const trace::Workload nearly = MakeWorkload("nearly", 1, 100, 0.3, 39'000);
  const std::vector<Arrival> some(20, {Duration{0}, &nearly});
  const Cluster cluster = MakeWorld("4xA100-40GB");
  RunOptions options = Immediate();
  options.estimates.bias = 0.5;
  options.estimates.sigma = 0.1;
  EXPECT_EQ(Play(cluster, some, options).totals.succeeded, 20);
}

}  // namespace
}  // namespace carma::sim

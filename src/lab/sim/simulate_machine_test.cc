// Tests of simulated tasks that use MIG instances and CPU cores.
#include <gtest/gtest.h>

#include <vector>

#include "lab/sim/gpu_types.h"
#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;

TEST(SimulateMachine, InstancesDoNotDisturbEachOther) {
  const trace::Workload small = MakeWorkload("small", 1, 1'000, 0.3, 4'000);
  RunOptions options = Immediate();
  options.collocation = core::SharingMethod::kMig;
  options.mig_instances = 7;
  options.policy.mapper = "exclusive";
  const RunResult run =
      Play(MakeWorld("A100-40GB"), std::vector<Arrival>(7, {Duration{0}, &small}), options);
  // Published result: when seven such tasks run on the smallest instances, each takes 2 to 2.5
  // times as long as on a whole GPU.
  const double takes_s = 1'000 / MigSpeed(1.0 / 7, 0.3);
  EXPECT_NEAR(run.totals.makespan_s, 14 + takes_s, 0.01);
  EXPECT_EQ(run.record->gpus.size(), 1u);
  EXPECT_NEAR(run.totals.sm_active, 0.99 * takes_s / (14 + takes_s), 1e-6);
  EXPECT_EQ(FindMigProfile(4), nullptr);
}

TEST(SimulateMachine, AnInstanceTakesOneTaskUnlessItIsShared) {
  const trace::Workload small = MakeWorkload("small", 1, 1'000, 0.2, 4'000);
  RunOptions options = Immediate();
  options.collocation = core::SharingMethod::kMig;
  options.mig_instances = 2;
  options.policy.margin_mib = 0;
  options.policy.streams_sm_cap.reset();
  const std::vector<Arrival> four(4, {Duration{0}, &small});
  // Two tasks wait for the two before them.
  EXPECT_GT(MeasuresOf(Play(MakeWorld("A100-40GB"), four, options)).waiting.mean, 500);
  options.policy.share_mig = true;
  EXPECT_LT(MeasuresOf(Play(MakeWorld("A100-40GB"), four, options)).waiting.mean, 100);
}

TEST(SimulateMachine, TasksOnSeveralGpusTakeTurnsBesideAnMpsServerPerGpu) {
  const trace::Workload one = MakeWorkload("one", 1, 1'000, 0.3, 4'000);
  const trace::Workload two = MakeWorkload("two", 2, 1'000, 0.3, 4'000);
  RunOptions options = Immediate();
  const auto makespan_s = [&](const trace::Workload& other) {
    return Play(MakeWorld("2xA100-40GB"), {{Duration{0}, &two}, {Duration{0}, &other}}, options)
        .totals.makespan_s;
  };
  EXPECT_NEAR(makespan_s(one), 14 + 1'150, 1) << "side by side: 1 + 0.5 * 0.3";
  EXPECT_NEAR(makespan_s(two), 14 + 1'150, 1);
  options.policy.gangs_take_turns = true;
  EXPECT_GT(makespan_s(one), 1'250);
  EXPECT_GT(makespan_s(two), 1'250) << "two tasks on several GPUs take turns too";
}

TEST(SimulateMachine, DataLoadersShareTheServersCores) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 4'000);
  RunOptions options = Immediate();
  options.host = {.cores = 16, .cores_per_gpu_task = 8};
  const std::vector<Arrival> four(4, {Duration{0}, &workload});
  options.policy.mapper = "exclusive";
  // Four tasks need 32 cores, but there are only 16.
  EXPECT_NEAR(Play(MakeWorld("4xA100-40GB"), four, options).totals.makespan_s, 2'014, 0.01);
}

TEST(SimulateMachine, EachTaskNeedsItsOwnCores) {
  trace::Workload hungry = MakeWorkload("hungry", 1, 1'000, 0.3, 4'000);
  hungry.cpus = 24;
  trace::Workload frugal = MakeWorkload("frugal", 1, 1'000, 0.3, 4'000);
  frugal.cpus = 0;
  RunOptions options = Immediate();
  options.host = {.cores = 32};
  options.policy.mapper = "exclusive";
  options.record = true;
  const std::vector<Arrival> load{
      {Duration{0}, &hungry}, {Duration{0}, &hungry}, {Duration{0}, &frugal}};
  // Two tasks need 48 cores, but there are only 32; a task that needs none is not slowed down.
  const RunResult slow = Play(MakeWorld("4xA100-40GB"), load, options);
  EXPECT_NEAR(slow.totals.makespan_s, 1'514, 0.01);
  for (const report::RunTask& task : slow.record->tasks) {
    const double took_s = base::Seconds(*task.ended - task.submitted);
    EXPECT_NEAR(took_s, task.name == "frugal" ? 1'014 : 1'514, 0.01) << task.name;
  }
  // Here the load specifies fewer cores for one task.
  std::vector<Arrival> told = load;
  told[1].cpus = 8;
  EXPECT_NEAR(Play(MakeWorld("4xA100-40GB"), told, options).totals.makespan_s, 1'014, 0.01);
  // If cores are promised, the second task has to wait for the first.
  options.host.promised = true;
  const Totals promised = Play(MakeWorld("4xA100-40GB"), load, options).totals;
  EXPECT_NEAR(promised.makespan_s, 2'028, 1);
  EXPECT_EQ(promised.rejected, 0);
}

}  // namespace
}  // namespace carma::sim

// Tests of the queue that feeds several servers, in small clusters with exact end times.
#include "lab/sim/above.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "lab/sim/simulate.h"

namespace carma::sim {
namespace {

using base::Duration;

// Makes a task that is too light to slow down its neighbours.
trace::Workload WorkloadOf(std::string id, int gpus, double solo_s, std::int64_t mib) {
  trace::Workload workload{.id = std::move(id), .gpus = gpus, .solo_s = solo_s};
  workload.sm_active.assign(static_cast<std::size_t>(gpus), 0.01);
  workload.memory_mib.assign(static_cast<std::size_t>(gpus), mib);
  return workload;
}

RunOptions Placed(Placing placing, Gres gres = Gres::kCarma) {
  RunOptions options;
  options.policy.sm_cap.reset();
  options.policy.settle = false;
  options.policy.margin_mib = 0;
  options.estimates.source = "oracle";
  options.record = true;
  options.above.placing = placing;
  options.above.gres = gres;
  return options;
}

RunResult PlayAbove(std::string_view servers, const std::vector<Arrival>& arrivals,
                    const RunOptions& options) {
  Result<RunResult> result = Simulate(*ParseCluster(servers), arrivals, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *std::move(result) : RunResult{};
}

// The GPU of each task's first attempt, numbered across the cluster.
std::vector<int> GpusOf(const RunResult& run) {
  std::vector<int> gpus;
  for (const report::RunTask& task : run.record->tasks)
    gpus.push_back(task.attempts.front().gpus.front());
  return gpus;
}

// Start of each task's last attempt, in seconds after the first submission.
std::vector<double> StartsOf(const RunResult& run) {
  std::vector<double> starts;
  for (const report::RunTask& task : run.record->tasks)
    starts.push_back(base::Seconds(task.attempts.back().started - run.record->from));
  return starts;
}

TEST(AboveSlurm, RefusesATaskThatHasOutgrownTheGpusOfItsType) {
  const trace::Workload large = WorkloadOf("large", 1, 1'000, 41'000);
  RunOptions options = Placed(Placing::kSlurm);
  options.estimates.bias = -0.2;  // the first attempt is promised less than it needs
  const RunResult run =
      PlayAbove("1xA100-40GB + 1xH100-80GB", {{.workload = &large, .gpu_type = "A100"}}, options);
  EXPECT_EQ(run.totals.rejected, 1);
  EXPECT_GE(run.totals.oom_crashes, 1);
}

TEST(AboveSlurm, PacksOrSpreads) {
  const trace::Workload some = WorkloadOf("some", 1, 1'000, 12'000);
  const std::vector<Arrival> arrivals(4, {Duration{0}, &some});
  RunOptions options = Placed(Placing::kSlurm);
  // Each task needs 12 GiB. All four fit into the 79 GiB of the first server and go there, each to
  // the GPU with the most free memory.
  EXPECT_EQ(GpusOf(PlayAbove("3 * 2xA100-40GB", arrivals, options)),
            (std::vector<int>{0, 1, 0, 1}));
  options.above.spread = true;
  EXPECT_EQ(GpusOf(PlayAbove("3 * 2xA100-40GB", arrivals, options)),
            (std::vector<int>{0, 2, 4, 1}));
}

TEST(AboveSlurm, ShardsUseTheFirstGpuAndWholeGpusServeOneTask) {
  const trace::Workload some = WorkloadOf("some", 1, 1'000, 16 * 1024);
  const std::vector<Arrival> arrivals(6, {Duration{0}, &some});
  const RunOptions shards = Placed(Placing::kSlurm, Gres::kShard);
  EXPECT_EQ(GpusOf(PlayAbove("2 * 4xA100-40GB", arrivals, shards)),
            (std::vector<int>{0, 0, 1, 1, 2, 2}));
  const RunOptions gpus = Placed(Placing::kSlurm, Gres::kGpu);
  EXPECT_EQ(GpusOf(PlayAbove("2 * 4xA100-40GB", arrivals, gpus)),
            (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(AboveSlurm, ATaskThatFitsTheCountButNoGpuMovesToAnotherServer) {
  // Three of these tasks would fit into the node's 79 GiB, but no GPU has room for two.
  const trace::Workload large = WorkloadOf("large", 1, 2'000, 26'000);
  const std::vector<Arrival> arrivals(3, {Duration{0}, &large});
  RunOptions options = Placed(Placing::kSlurm);
  const RunResult run = PlayAbove("2 * 2xA100-40GB", arrivals, options);
  EXPECT_EQ(StartsOf(run), (std::vector<double>{0, 0, 600 + 121}));
  EXPECT_EQ(GpusOf(run), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(run.totals.requeues, 1);
  EXPECT_EQ(run.totals.attempts, 3);
  // The third task is never sent back, so it waits until another task ends.
  options.above.wait_requeues = 0;
  const RunResult patient = PlayAbove("2 * 2xA100-40GB", arrivals, options);
  EXPECT_EQ(patient.totals.requeues, 0);
  EXPECT_GE(StartsOf(patient)[2], 2'014);
  // With kAsked, the servers report immediately that they cannot start the task.
  const RunResult asked = PlayAbove("2 * 2xA100-40GB", arrivals, Placed(Placing::kAsked));
  EXPECT_EQ(StartsOf(asked), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(asked.totals.requeues, 0);
}

TEST(AboveSlurm, ARequeuedTaskIsConsideredAgainLater) {
  const trace::Workload stays = WorkloadOf("stays", 1, 5'000, 20'000);
  const trace::Workload brief = WorkloadOf("brief", 1, 100, 19'000);
  const trace::Workload some = WorkloadOf("some", 1, 300, 26'000);
  const trace::Workload large = WorkloadOf("large", 1, 1'000, 30'000);
  const trace::Workload tiny = WorkloadOf("tiny", 1, 100, 4'000);
  const std::vector<Arrival> arrivals{{Duration{0}, &stays}, {Duration{0}, &stays},
                                      {Duration{0}, &brief}, {Duration{0}, &brief},
                                      {Duration{0}, &some},  {Duration{0}, &some},
                                      {Duration{0}, &large}, {Duration{400'000}, &tiny}};
  const RunResult run = PlayAbove("2 * 2xA100-40GB", arrivals, Placed(Placing::kSlurm));
  // The large task fits nowhere until the brief tasks end at 114 s. Slurm then sends it to a server
  // that cannot start it. The task waits there until it is sent back, although the other server has
  // long been empty.
  EXPECT_EQ(run.totals.requeues, 1);
  EXPECT_EQ(StartsOf(run)[6], 114 + 600 + 121);
}

TEST(AboveSlurm, RequeuesWithALargerClaimAfterRunningOutOfMemory) {
  const trace::Workload large = WorkloadOf("large", 1, 1'000, 30'000);
  const std::vector<Arrival> arrivals(2, {Duration{0}, &large});
  RunOptions options = Placed(Placing::kSlurm);
  options.estimates.bias = -1;  // the user requests 11 GiB
  const RunResult run = PlayAbove("A100-40GB", arrivals, options);
  EXPECT_EQ(run.totals.succeeded, 2);
  EXPECT_EQ(run.totals.oom_crashes, 1);
  EXPECT_EQ(run.totals.requeues, 1);
  EXPECT_EQ(run.totals.attempts, 3);
  EXPECT_GE(StartsOf(run)[1], 1'014);  // the server has measured the first task's memory by then
  // The first attempt crashed when it allocated memory.
  EXPECT_EQ(run.record->tasks[1].attempts[0].end, report::AttemptEnd::kOutOfMemory);

  RunOptions shards = Placed(Placing::kSlurm, Gres::kShard);
  shards.estimates.bias = -1;
  const RunResult lost = PlayAbove("A100-40GB", arrivals, shards);
  EXPECT_EQ(lost.totals.succeeded, 1);
  EXPECT_EQ(lost.totals.failed, 1);
  EXPECT_EQ(lost.totals.requeues, 0);
}

TEST(AboveSlurm, BackfillPassesTheHeadWithoutDelayingIt) {
  const trace::Workload one = WorkloadOf("one", 1, 1'000, 4'000);
  const trace::Workload two = WorkloadOf("two", 2, 500, 4'000);
  const trace::Workload brief = WorkloadOf("brief", 1, 100, 4'000);
  const trace::Workload endless = WorkloadOf("endless", 1, 5'000, 4'000);
  const std::vector<Arrival> arrivals{
      {Duration{0}, &one}, {Duration{0}, &two}, {Duration{0}, &endless}, {Duration{0}, &brief}};
  RunOptions options = Placed(Placing::kSlurm, Gres::kGpu);
  // There is a short delay before the queue notices that a GPU is free.
  const std::vector<double> in_order = StartsOf(PlayAbove("2xA100-40GB", arrivals, options));
  EXPECT_NEAR(in_order[1], 1'014, 1);
  EXPECT_NEAR(in_order[2], 1'014 + 514, 2);
  EXPECT_NEAR(in_order[3], 1'014 + 514, 2);
  // The brief task's time limit (2 x 100 s) expires before both GPUs are needed; the endless task's
  // does not.
  options.above.backfill = true;
  const std::vector<double> backfilled = StartsOf(PlayAbove("2xA100-40GB", arrivals, options));
  EXPECT_EQ(backfilled[3], 30);
  EXPECT_NEAR(backfilled[1], 1'014, 1);
  EXPECT_NEAR(backfilled[2], 1'014 + 514, 2);
}

TEST(Above, GivesATaskSeveralWholeServersAtOnce) {
  const trace::Workload one = WorkloadOf("one", 1, 500, 4'000);
  const trace::Workload three = WorkloadOf("three", 3, 1'000, 4'000);
  for (const Placing placing : {Placing::kSlurm, Placing::kAsked}) {
    // The first task on three GPUs holds two whole servers. The last task must neither use their
    // fourth GPU nor start before the first one ends.
    const std::vector<Arrival> arrivals{{Duration{0}, &one},
                                        {Duration{1'000}, &three},
                                        {Duration{2'000}, &one},
                                        {Duration{3'000}, &three}};
    const RunResult run = PlayAbove("3 * 2xA100-40GB", arrivals, Placed(placing));
    ASSERT_EQ(run.totals.succeeded, 4) << base::WordOf(placing);
    EXPECT_EQ(run.record->tasks[1].attempts[0].gpus, (std::vector<int>{2, 3, 4}));
    EXPECT_EQ(run.record->tasks[2].attempts[0].gpus.front() / 2, 0);
    // The two small tasks end at 518 s and the first large task at 1 015 s. All servers are then
    // empty, and the last task gets two of them.
    EXPECT_NEAR(StartsOf(run)[3], 1'015, 1) << base::WordOf(placing);
    EXPECT_EQ(run.record->tasks[3].attempts[0].gpus.size(), 3u);
    EXPECT_EQ(run.totals.attempts, 4);
  }
}

TEST(AboveAsked, ReservesAServerForATaskPassedTooLong) {
  const trace::Workload one = WorkloadOf("one", 1, 1'000, 4'000);
  const trace::Workload two = WorkloadOf("two", 2, 500, 4'000);
  std::vector<Arrival> arrivals{{Duration{0}, &one}, {Duration{0}, &one}, {Duration{0}, &two}};
  // One-GPU tasks are always waiting, and no two running tasks end at the same time. So the task
  // that needs two GPUs never finds both of them free.
  arrivals[1].solo_s = 1'500;
  for (int i = 0; i < 30; ++i) arrivals.push_back({Duration{0}, &one});
  RunOptions options = Placed(Placing::kAsked);
  options.policy.mapper = "exclusive";
  options.policy.backfill = 100;
  options.policy.pass_limit = std::chrono::hours(2);
  const double kept = StartsOf(PlayAbove("2xA100-40GB", arrivals, options))[2];
  EXPECT_GT(kept, 7'200);
  EXPECT_LT(kept, 7'200 + 1'020);
  options.policy.pass_limit.reset();
  EXPECT_GT(StartsOf(PlayAbove("2xA100-40GB", arrivals, options))[2], 14'000);
}

TEST(Above, FairSharesCountUsageOnAllServers) {
  const trace::Workload one = WorkloadOf("one", 1, 100, 4'000);
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 6; ++i)
    arrivals.push_back({.at = Duration{0}, .workload = &one, .user = "ada"});
  arrivals.push_back({.at = Duration{1'000}, .workload = &one, .user = "bob"});
  RunOptions options = Placed(Placing::kSlurm, Gres::kGpu);
  EXPECT_GT(StartsOf(PlayAbove("2 * A100-40GB", arrivals, options))[6], 340);
  options.policy.order = core::QueueOrder::kFair;
  // The new user's task gets the next free server.
  EXPECT_NEAR(StartsOf(PlayAbove("2 * A100-40GB", arrivals, options))[6], 114, 1);
}

TEST(Above, EveryTaskEndsOnceAndEqualArgumentsGiveEqualRuns) {
  const std::vector<trace::Workload> workloads{
      WorkloadOf("small", 1, 300, 4'000), WorkloadOf("large", 1, 900, 26'000),
      WorkloadOf("two", 2, 600, 15'000), WorkloadOf("gang", 6, 200, 12'000)};
  base::Rng rng(11);
  std::vector<Arrival> arrivals;
  Duration at{0};
  for (int i = 0; i < 300; ++i) {
    at += Duration(static_cast<std::int64_t>(rng.Exponential(20'000)));
    const std::uint64_t which = rng.Below(20);
    arrivals.push_back({.at = at,
                        .workload = &workloads[which == 0 ? 3 : which % 3],
                        .user = rng.Below(2) == 0 ? "ada" : "bob"});
  }
  struct Case {
    Placing placing;
    Gres gres;
  };
  for (const Case& c : {Case{Placing::kSlurm, Gres::kCarma}, Case{Placing::kSlurm, Gres::kGpu},
                        Case{Placing::kSlurm, Gres::kShard}, Case{Placing::kAsked, {}}}) {
    for (const bool fair : {false, true}) {
      RunOptions options = Placed(c.placing, c.gres);
      options.policy = core::PolicyConfig{};
      options.policy.order = fair ? core::QueueOrder::kFair : core::QueueOrder::kFifo;
      options.policy.backfill = fair ? 10 : 1;
      options.estimates.sigma = 0.4;
      options.above.backfill = fair;
      options.above.spread = fair;
      options.above.wait = std::chrono::minutes(2);
      const RunResult run = PlayAbove("4 * 4xA100-40GB + 2xA100-40GB", arrivals, options);
      const std::string name(base::WordOf(c.gres));
      EXPECT_EQ(run.totals.tasks, 300) << name;
      EXPECT_TRUE(run.totals.succeeded == 300 || !options.above.WithCarma()) << name;
      EXPECT_EQ(PlayAbove("4 * 4xA100-40GB + 2xA100-40GB", arrivals, options).totals, run.totals);
    }
  }
}

TEST(Above, RefusesTasksThatAllServersTogetherCannotRun) {
  const trace::Workload gang = WorkloadOf("gang", 6, 100, 4'000);
  struct Case {
    std::string_view servers;
    Placing placing;
    std::string_view says;  // empty: the task runs
  };
  for (const Case& c : {Case{"3 * 2xA100-40GB", Placing::kQueue, "the largest server has 2"},
                        Case{"3 * 2xA100-40GB", Placing::kAsked, ""},
                        Case{"2 * 2xA100-40GB + 2xH100-80GB", Placing::kSlurm,
                             "servers of one kind have at most 4 in total"}}) {
    const auto result = Simulate(*ParseCluster(c.servers),
                                 std::vector<Arrival>{{Duration{0}, &gang}}, Placed(c.placing));
    EXPECT_EQ(result.has_value(), c.says.empty()) << c.servers;
    if (result) continue;
    EXPECT_TRUE(result.error().message.contains(c.says)) << result.error().message;
  }
}

}  // namespace
}  // namespace carma::sim

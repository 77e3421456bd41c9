// Tests of several servers under one queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;

TEST(Cluster, SpreadsTheLoadAndLosesNothing) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 400);
  RunOptions options = Immediate();
  const RunResult run = Play(MakeWorld("3 * 2xA100-40GB"), arrivals, options);
  EXPECT_EQ(run.totals.succeeded, 400);
  std::vector<int> used(6, 0);
  for (const report::RunTask& task : run.record->tasks) {
    const std::vector<int>& gpus = task.attempts[0].gpus;
    for (const int gpu : gpus) ++used[static_cast<std::size_t>(gpu)];
    // The task needs all GPUs of one server.
    EXPECT_EQ(gpus.front() / 2, gpus.back() / 2);
  }
  EXPECT_GT(*std::ranges::min_element(used), 20) << ::testing::PrintToString(used);
}

TEST(Cluster, ATaskWaitsForTheOnlyServerThatIsLargeEnough) {
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.9, 60'000);
  const trace::Workload small = MakeWorkload("small", 1, 100, 0.3, 4'000);
  const Cluster cluster = MakeWorld("A100-40GB + A100-80GB");
  std::vector<Arrival> arrivals(4, {Duration{0}, &large});
  arrivals.push_back({Duration{0}, &small});
  const RunResult run = Play(cluster, arrivals, Immediate());
  EXPECT_EQ(run.totals.succeeded, 5);
  EXPECT_EQ(run.totals.oom_crashes, 0);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(run.record->tasks[static_cast<std::size_t>(i)].attempts[0].gpus, std::vector<int>{1});
}

TEST(ParseCluster, NamesShapesAndSeveralServers) {
  EXPECT_EQ(MakeWorld("DGX-Station-A100").servers[0].gpus.size(), 4u);
  EXPECT_EQ(MakeWorld("2xV100-16GB,1xH100-80GB").servers[0].gpus.size(), 3u);
  const Cluster mixed = MakeWorld("3 * dgx-h100 + 4xL40S-48GB");
  ASSERT_EQ(mixed.servers.size(), 4u);
  EXPECT_EQ(mixed.servers[3].name, "node 3");
  EXPECT_EQ(mixed.servers[3].gpus[0].type, "L40S-48GB");
  for (const ServerName& each : ServerNames()) EXPECT_TRUE(ParseCluster(each.name)) << each.name;
  for (const std::string_view bad : {"", "dgx", "0 * dgx-a100", "x * dgx-a100", "5000 * dgx-a100",
                                     "dgx-a100 +", "0xA100-40GB", "65xA100-40GB"}) {
    EXPECT_FALSE(ParseCluster(bad)) << bad;
  }
}

}  // namespace
}  // namespace carma::sim

#include "lab/sim/jobs.h"

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::FromMs;

TEST(Jobs, ReusesAnIndex) {
  const trace::Workload workload = MakeWorkload("small", 1, 300, 0.3, 4'000);
  const std::vector<Arrival> arrivals(3, Arrival{.workload = &workload});
  Jobs jobs(arrivals, 0, 1);
  EXPECT_EQ(jobs.Add(0, FromMs(0)), 0u);
  EXPECT_EQ(jobs.Add(1, FromMs(0)), 1u);
  jobs.Remove(0);
  EXPECT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs.Add(2, FromMs(7)), 0u);
  EXPECT_EQ(jobs.IndexOf(core::TaskId{3}), 0u);
  EXPECT_EQ(jobs.Of(core::TaskId{3}).submitted, FromMs(7));
  EXPECT_DOUBLE_EQ(jobs[0].work.solo_s(), 300);
}

TEST(Jobs, NumbersNamedUsersOnly) {
  const trace::Workload workload = MakeWorkload("small", 1, 300, 0.3, 4'000);
  const std::vector<Arrival> arrivals{{.workload = &workload, .user = "bob"},
                                      {.workload = &workload, .user = "ada"},
                                      {.workload = &workload},
                                      {.workload = &workload, .user = "bob"}};
  Jobs jobs(arrivals, 0, 1);
  std::vector<std::uint32_t> uids;
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    uids.push_back(jobs[jobs.Add(i, FromMs(0))].uid);
  EXPECT_EQ(uids, (std::vector<std::uint32_t>{1001, 1002, 0, 1001}));
}

TEST(Jobs, ATaskOnSeveralServersRequestsItsPartFromEach) {
  const Cluster cluster = MakeWorld("3 * 4xA100-40GB");
  const Layout layout(cluster, *FindMigProfile(1), false);
  const trace::Workload workload = MakeWorkload("ten", 10, 300, 0.3, 4'000);
  const std::vector<Arrival> arrivals{{.workload = &workload}};
  Jobs jobs(arrivals, 0, 1);
  Job& job = jobs[jobs.Add(0, FromMs(0))];
  EXPECT_TRUE(IsGang(layout, job));
  job.above.nodes = {2, 0, 1};
  const RunOptions options;
  EXPECT_EQ(RequestOf(options, layout, job).gpus, 10);
  EXPECT_EQ(RequestOf(options, layout, job, 2).gpus, 4);
  EXPECT_EQ(RequestOf(options, layout, job, 1).gpus, 2) << "the last server provides the rest";
  EXPECT_TRUE(RequestOf(options, layout, job, 1).exclusive);
}

}  // namespace
}  // namespace carma::sim

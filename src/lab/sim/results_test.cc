#include "lab/sim/results.h"

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::FromMs;

TEST(Results, CountsAndDescribesTheTasks) {
  const Cluster cluster = MakeWorld("1xA100-40GB");
  const Layout layout(cluster, *FindMigProfile(1), false);
  const trace::Workload workload = MakeWorkload("small", 1, 50, 0.3, 4'000);
  const std::vector<Arrival> arrivals(2, Arrival{.workload = &workload});
  RunOptions options;
  std::vector<report::RunTask> told;
  options.on_task = [&told](const report::RunTask& task) { told.push_back(task); };
  Results results(cluster, options, layout, FromMs(0));
  Jobs jobs(arrivals, 0, 1);
  Job& job = jobs[jobs.Add(0, FromMs(0))];
  results.Submitted();
  job.attempt = {.launched = FromMs(10'000), .allocated = FromMs(20'000), .gpus = {0}};
  job.work.Launch(1e9);
  results.Launched(job);
  results.AttemptEnded(job, core::ExitKind::kSuccess, FromMs(120'000));
  results.TaskEnded(job, core::TaskState::kSucceeded, "", FromMs(120'000));
  Job& refused = jobs[jobs.Add(1, FromMs(0))];
  results.Submitted();
  results.TaskEnded(refused, core::TaskState::kRejected, "too large", FromMs(130'000));

  std::vector<SimDevice> devices{SimDevice(layout.TypeOf(0).power, FromMs(0))};
  const Totals totals = results.Finish(devices, 7).totals;
  EXPECT_EQ(totals.tasks, 2);
  EXPECT_EQ(totals.succeeded, 1);
  EXPECT_EQ(totals.rejected, 1);
  EXPECT_EQ(totals.samples, 7);
  EXPECT_DOUBLE_EQ(totals.makespan_s, 130);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].attempts.at(0).started, FromMs(10'000));
  EXPECT_EQ(told[0].attempts.at(0).ended, FromMs(120'000));
  EXPECT_EQ(told[0].attempts.at(0).gpus, std::vector<int>{0});
  EXPECT_EQ(told[0].solo_s, 64.0);  // includes the load time
  EXPECT_FALSE(told[1].solo_s);
  EXPECT_EQ(told[1].reason, "too large");
}

}  // namespace
}  // namespace carma::sim

// Tests the kernel-enforced limit on the total GPU memory of a task's processes (driver branch
// 615).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/process_id.h"
#include "base/text.h"
#include "task/mps/mps_control.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

constexpr double kLongRun = 1e6;  // runs until it is cancelled

SiteOptions Limited(const std::string& method) {
  return {.shape = "1xA100-40GB",
          .memory_limits = true,
          .settings = {{"collocation.method", "\"" + method + "\""},
                       {"policy.settle", "false"},
                       {"policy.plateau_after", "\"60s\""}}};
}

class MemoryLimits : public ::testing::TestWithParam<const char*> {
 protected:
  MemoryLimits() {
    site.Set("collocation.mps_control", "\"" + Program("carma-simmps") + "\"");
    site.Set("collocation.mps_dir", "\"" + dir() + "\"");
  }
  ~MemoryLimits() override {
    if (!site.daemon().started()) return;
    site.CancelAll();
    for (const task::MpsServerId& id :
         task::FindMpsServers({.dir = dir()}, {site.Gpus().at(0).uuid}))
      task::MpsControl({.dir = dir()}, id).Quit(std::chrono::steady_clock::now());
  }
  void SetUp() override { site.Start(); }
  // On some machines, tasks have no cgroups, so nothing is enforced.
  bool Enforced() { return site.Status().memory_limits == "kernel"; }
  std::string dir() const { return site.folder() / "mps"; }
  api::TaskView AwaitMemory(std::uint64_t id, std::int64_t mib) {
    EXPECT_TRUE(Eventually([&] { return site.Task(id).observed_mib >= mib; }))
        << site.Task(id).reason_text << site.Output(id);
    return site.Task(id);
  }
  // Submits an eight-process task that ends when one of its processes fails.
  std::uint64_t SubmitEight(Words options, const Training& each) {
    const std::string one = base::Join(SimTask(each), " ");
    const std::string all =
        "trap 'trap \"\" TERM; kill 0; exit 1' USR1; for i in 1 2 3 4 5 6 7 8; do (" + one +
        " || kill -USR1 $$) & done; wait";
    options.insert(options.end(), {"--", "/bin/sh", "-c", all});
    return site.Submit(std::move(options));
  }

  Site site{Limited(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(By, MemoryLimits, ::testing::Values("streams", "mps"),
                         [](const auto& method) { return std::string(method.param); });

TEST_P(MemoryLimits, StopOnlyTheTaskAboveItsPromise) {
  if (!Enforced()) GTEST_SKIP() << site.Status().no_memory_limits;
  const std::uint64_t neighbour =
      site.Train({"--gpu-mem", "12G"}, {.memory_mib = 11'000, .solo_s = kLongRun});
  AwaitMemory(neighbour, 11'000);
  // Together, the processes allocate 16,000 MiB, although each stays below a quarter of the
  // promised 8 GiB. The GPU itself still has 28 GiB free.
  const std::uint64_t eight =
      SubmitEight({"--gpu-mem", "8G", "--retries", "0"},
                  {.memory_mib = 2'000, .solo_s = kLongRun, .sm_active = 0.05});
  const api::TaskView ended = site.Await(eight);
  EXPECT_EQ(ended.state, "out_of_memory") << ended.reason_text << site.Output(eight);
  EXPECT_EQ(ended.sharing, GetParam());
  EXPECT_GE(ended.group_limit_mib, 8'192);
  EXPECT_LT(ended.group_limit_mib, 16'000);
  EXPECT_THAT(ended.reason_text, HasSubstr("Ran out of GPU memory"));
  const api::TaskView beside = site.Task(neighbour);
  EXPECT_EQ(beside.state, "running");
  EXPECT_EQ(beside.attempt, 1);
  EXPECT_EQ(beside.observed_mib, 11'000);
  EXPECT_THAT(site.Carma({"show", std::to_string(neighbour)}).out,
              HasSubstr("the kernel limits its processes to a total of "));
  site.Carma({"cancel", std::to_string(neighbour)});
  EXPECT_EQ(site.Await(neighbour).state, "cancelled");
  site.ExpectIdle();  // no limit is left either
}

TEST_P(MemoryLimits, ATaskSeesItsLimitAsTheWholeGpu) {
  if (!Enforced()) GTEST_SKIP() << site.Status().no_memory_limits;
  const std::uint64_t neighbour =
      site.Train({"--gpu-mem", "4G"}, {.memory_mib = 3'000, .solo_s = kLongRun});
  AwaitMemory(neighbour, 3'000);
  const std::uint64_t id = site.Train(
      {"--gpu-mem", "10G"}, {.memory_mib = 4'000, .solo_s = 5, .more = {"--tell-memory"}});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "succeeded") << site.Output(id);
  EXPECT_THAT(site.Output(id),
              HasSubstr("memory: " + std::to_string(task.group_limit_mib - 4'000) + " of " +
                        std::to_string(task.group_limit_mib) + " MiB free"));
}

TEST_P(MemoryLimits, ShowUseThatTheDriverDoesNotReport) {
  if (!Enforced()) GTEST_SKIP() << site.Status().no_memory_limits;
  ASSERT_EQ(site.SimGpu({"fault", "--gpu", "0", "--kind", "no-process-memory"}).code, 0);
  const std::uint64_t id =
      site.Train({"--gpu-mem", "4G"}, {.memory_mib = 3'000, .solo_s = kLongRun});
  EXPECT_EQ(AwaitMemory(id, 3'000).observed_mib, 3'000);
}

// Memory that a task does not use on its plateau is promised to a neighbour, which uses it later.
TEST_P(MemoryLimits, FollowThePromiseWhileTheTaskRuns) {
  if (!Enforced()) GTEST_SKIP() << site.Status().no_memory_limits;
  Bell bell(site.out_dir() + "/bell"), gate(site.out_dir() + "/gate");
  const std::string turn = "; echo $? > " + bell.path() + "; read go < " + gate.path() + "; ";
  const std::string more =
      base::Join(SimTask({.memory_mib = 15'000, .solo_s = 1, .sm_active = 0.1}), " ");
  const std::string grows =
      base::Join(SimTask({.memory_mib = 8'000, .solo_s = kLongRun, .sm_active = 0.1}), " ") +
      " & :" + turn + more + turn + more + turn;
  const std::uint64_t id = site.Submit({"--gpu-mem", "30G", "--", "/bin/sh", "-c", grows});
  ASSERT_EQ(bell.Hear(), "0");
  AwaitMemory(id, 8'000);
  const std::int64_t at_first = site.Task(id).group_limit_mib;
  EXPECT_EQ(at_first, 32'768);

  Gated beside(site, "beside");
  const std::uint64_t neighbour = beside.Submit(
      site, "exec " + base::Join(SimTask({.memory_mib = 19'000, .solo_s = kLongRun}), " "),
      {"--gpu-mem", "20G"});
  ASSERT_EQ(beside.Hear(), "1") << site.Task(neighbour).reason_text;
  EXPECT_TRUE(Eventually([&] { return site.Task(id).group_limit_mib < 23'000; }));
  WriteText(gate.path(), "go\n", 0666);
  EXPECT_EQ(bell.Hear(), "1") << "it ran out of memory: " << site.Output(id);
  beside.Open();
  AwaitMemory(neighbour, 19'000);
  EXPECT_EQ(site.Task(neighbour).attempt, 1);

  site.Carma({"cancel", std::to_string(neighbour)});
  site.Await(neighbour);
  EXPECT_TRUE(Eventually([&] { return site.Task(id).group_limit_mib == at_first; }));
  WriteText(gate.path(), "go\n", 0666);
  EXPECT_EQ(bell.Hear(), "0") << "the task has all of its memory again: " << site.Output(id);
  site.Carma({"cancel", std::to_string(id)});
  EXPECT_EQ(site.Await(id).state, "cancelled");
  site.ExpectIdle();
}

// The limits survive a daemon restart. Each limit is removed when its task ends, whatever the
// reason.
TEST_P(MemoryLimits, OutlastADaemonAndEndWithTheirTask) {
  if (!Enforced()) GTEST_SKIP() << site.Status().no_memory_limits;
  const std::uint64_t ends =
      site.Train({"--gpu-mem", "4G"}, {.memory_mib = 3'000, .solo_s = kLongRun});
  const std::uint64_t lost =
      site.Train({"--gpu-mem", "4G", "--no-requeue"}, {.memory_mib = 3'000, .solo_s = kLongRun});
  AwaitMemory(ends, 3'000);
  AwaitMemory(lost, 3'000);
  EXPECT_THAT(site.SimGpu({"audit"}).out, HasSubstr("a memory limit for "));
  site.Restart(SIGKILL);
  EXPECT_GT(site.Task(ends).group_limit_mib, 4'096);
  const auto main = base::ReadProcessStat(static_cast<pid_t>(site.Task(lost).pid.value_or(0)));
  ASSERT_TRUE(main);
  ::kill(main->parent, SIGKILL);  // kills the task's shim, which would have removed the limit
  site.Await(lost);
  site.Carma({"cancel", std::to_string(ends)});
  EXPECT_EQ(site.Await(ends).state, "cancelled");
  site.ExpectIdle();
}

TEST_P(MemoryLimits, AreReported) {
  if (!Enforced()) GTEST_SKIP() << site.Status().no_memory_limits;
  EXPECT_THAT(site.Carma({"status"}).out, HasSubstr("The kernel limits the memory of all"));
  EXPECT_THAT(site.Carma({"status", "--json"}).out, HasSubstr("\"memory_limits\":\"kernel\""));
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              HasSubstr("enforced by the kernel, for each task as a whole"));
}

TEST(MemoryLimitsOfLateDrivers, AreTriedAgainOnceTheDriverResponds) {
  SiteOptions options = Limited("streams");
  options.settings["monitor.probe_timeout"] = "\"300ms\"";
  Site site{options};
  site.Start();
  if (site.Status().memory_limits != "kernel") GTEST_SKIP() << site.Status().no_memory_limits;
  site.Stop(SIGTERM);
  ASSERT_TRUE(site.SimGpu({"fault", "--kind", "hang", "--driver"}).Ok());
  site.Start();
  EXPECT_EQ(site.Status().memory_limits, "nobody");
  ASSERT_TRUE(site.SimGpu({"clear"}).Ok());
  EXPECT_TRUE(Eventually([&] { return site.Status().memory_limits == "kernel"; }))
      << site.Status().no_memory_limits;
  const std::uint64_t id = site.Train({"--gpu-mem", "2G"}, {});
  EXPECT_GT(site.Await(id).group_limit_mib, 0);
}

TEST(MemoryLimitsOfOlderDrivers, AreReportedAsMissing) {
  Site site{{.settings = {{"collocation.method", "\"streams\""}}}};
  site.Start();
  EXPECT_EQ(site.Status().memory_limits, "nobody");
  EXPECT_NE(site.Status().no_memory_limits, "");
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              AllOf(HasSubstr("not by the kernel: "), Not(HasSubstr("enforced by the kernel"))));
  const std::uint64_t id = site.Train({"--gpu-mem", "2G"}, {});
  EXPECT_EQ(site.Await(id).group_limit_mib, 0);
}

}  // namespace
}  // namespace carma::system_test

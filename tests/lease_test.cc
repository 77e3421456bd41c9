// Tests leases, which give GPUs to processes that carmad did not start. Uses real processes, and
// kills the daemon.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <sstream>

#include "base/process_id.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Lease : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  // Runs `carma lease … -- /bin/sh -c SCRIPT`.
  Child Ask(const std::string& script, Words options = {"--memory", "4G"}) const {
    options.insert(options.begin(), "lease");
    options.insert(options.end(), {"--", "/bin/sh", "-c", script});
    return site.StartCarma(options);
  }

  // Waits until this many leases are waiting.
  void ExpectWaiting(std::size_t count) {
    EXPECT_TRUE(Eventually([&] {
      const auto page = cli::ListTasks(site.client(), {.states = "queued"});
      return page && page->tasks.size() == count;
    })) << site.Carma({"list", "--all"}).out;
  }

  Site site{{.shape = "2xA100-40GB"}};
};

TEST_F(Lease, TheCommandHasItsGpusAndItsOwnExitCode) {
  const Ran ran = Ask("echo $CUDA_VISIBLE_DEVICES $CARMA_TASK_ID; exit 7",
                      {"--memory", "4G", "-G", "2", "-J", "outside"})
                      .Wait();
  EXPECT_EQ(ran.code, 7) << ran.Text();
  const std::vector<api::GpuView> gpus = site.Gpus();
  EXPECT_EQ(ran.out, fmt::format("{},{} 1\n", gpus.at(0).uuid, gpus.at(1).uuid));
  const api::TaskView task = site.Await(1);
  // On older kernels, only the parent process receives the exit code.
  const bool kernel_tells = task.exit_code.has_value();
  EXPECT_EQ(task.exit_code.value_or(7), 7);
  EXPECT_EQ(task.state, kernel_tells ? "failed" : "succeeded");
  EXPECT_EQ(task.name, "outside");
  EXPECT_EQ(task.origin, "lease");
  EXPECT_THAT(site.Carma({"show", "1"}).out, HasSubstr("lease"));
  EXPECT_EQ(site.Carma({"redo", "1"}).code, 1) << "carmad did not start it and cannot repeat it";
  site.ExpectIdle();
}

TEST_F(Lease, IsATaskWhileItsProcessLives) {
  Bell up(site.out_dir() + "/up"), gate(site.out_dir() + "/gate");
  Child child = Ask(fmt::format("echo $$ > {}; read x < {}", up.path(), gate.path()));
  const std::optional<std::string> pid = up.Hear();
  ASSERT_TRUE(pid);
  const api::TaskView task = site.AwaitState(1, "running");
  EXPECT_EQ(fmt::format("{}", child.pid()), *pid) << "carma lease became the command";
  EXPECT_EQ(task.pid, static_cast<std::uint64_t>(child.pid()));
  EXPECT_EQ(task.claim_mib, 4096);
  EXPECT_THAT(site.Carma({"explain", "1"}).out, HasSubstr("running"));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""),
              HasSubstr("carma_leases{state=\"adopted\"} 1\n"));
  // A waiting lease is queued like a task, and ends when its process exits.
  const Ran held =
      site.Carma({"submit", "--parsable", "-G", "2", "--exclusive", "--", "/bin/true"});
  ASSERT_EQ(held.out, "2\n") << held.Text();
  Child second = Ask("exit 3", {"--exclusive", "-G", "2"});
  ExpectWaiting(2);
  EXPECT_TRUE(Eventually([&] { return second.Err().find("lease 3 waits") != std::string::npos; }));
  second.Signal(SIGKILL);
  second.Wait();
  EXPECT_EQ(site.Await(3).state, "cancelled");
  WriteText(gate.path(), "go\n");
  EXPECT_EQ(child.Wait().code, 0);
  EXPECT_EQ(site.Await(1).state, "succeeded");
  EXPECT_EQ(site.Await(2).state, "succeeded") << "its GPUs became free";
}

TEST_F(Lease, ACancelEndsItsProcess) {
  Bell up(site.out_dir() + "/up");
  Child child = Ask(fmt::format("echo up > {}; exec sleep 10000", up.path()));
  ASSERT_EQ(up.Hear(), "up");
  site.AwaitState(1, "running");
  EXPECT_TRUE(site.Carma({"cancel", "1"}).Ok());
  EXPECT_EQ(child.Wait().signal, SIGTERM);
  EXPECT_EQ(site.Await(1).state, "cancelled");
  site.ExpectIdle();
}

TEST_F(Lease, ARestartedDaemonFindsWaitingAndRunningLeases) {
  Bell up(site.out_dir() + "/up"), gate(site.out_dir() + "/gate");
  Child running = Ask(fmt::format("echo up > {}; read x < {}", up.path(), gate.path()),
                      {"--exclusive", "-G", "2"});
  ASSERT_EQ(up.Hear(), "up");
  site.AwaitState(1, "running");
  Child waiting = Ask("echo $CUDA_VISIBLE_DEVICES");
  ExpectWaiting(1);
  Child given_up = Ask("exit 9");
  ExpectWaiting(2);
  site.Stop(SIGKILL);
  given_up.Signal(SIGKILL);
  given_up.Wait();
  site.Start();
  EXPECT_EQ(site.AwaitState(1, "running").pid, static_cast<std::uint64_t>(running.pid()));
  EXPECT_EQ(site.Await(3).state, "cancelled") << "its process ended while no daemon was running";
  EXPECT_EQ(site.Task(2).state, "queued");
  site.Stop(SIGKILL);
  WriteText(gate.path(), "go\n");
  EXPECT_EQ(running.Wait().code, 0);
  site.Start();
  EXPECT_EQ(site.Await(1).state, "succeeded");
  const Ran ran = waiting.Wait();
  EXPECT_EQ(ran.code, 0) << ran.Text();
  EXPECT_THAT(ran.out, HasSubstr("GPU-"));
  EXPECT_EQ(site.Await(2).state, "succeeded");
  site.ExpectIdle();
}

TEST_F(Lease, IsRequestedAgainWhileTheDaemonRestarts) {
  site.Stop(SIGKILL);
  Child child = Ask("echo $CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(Eventually([&] { return child.Err().find("waiting for it") != std::string::npos; }));
  site.Start();
  const Ran ran = child.Wait();
  EXPECT_EQ(ran.code, 0) << ran.Text();
  EXPECT_THAT(ran.out, HasSubstr("GPU-"));
}

TEST_F(Lease, AStoppedProcessTakesItsGpusWhenItContinues) {
  Bell up(site.out_dir() + "/up"), gate(site.out_dir() + "/gate");
  Child running = Ask(fmt::format("echo up > {}; read x < {}", up.path(), gate.path()),
                      {"--exclusive", "-G", "2"});
  ASSERT_EQ(up.Hear(), "up");
  Child waiting = Ask("echo $CUDA_VISIBLE_DEVICES", {"--exclusive", "-G", "2"});
  ExpectWaiting(1);
  waiting.Signal(SIGSTOP);
  // Until the process has really stopped, it could still take the GPUs.
  ASSERT_TRUE(Eventually([&] {
    const auto stat = base::ReadProcessStat(waiting.pid());
    return stat && stat->state == 'T';
  }));
  WriteText(gate.path(), "go\n");
  EXPECT_EQ(running.Wait().code, 0);
  EXPECT_TRUE(Eventually([&] {
    return site.Carma({"history", "2"}).out.find("its process is stopped") != std::string::npos;
  })) << site.Carma({"history", "2"}).out;
  const Ran other = site.Carma({"submit", "--wait", "-G", "2", "--exclusive", "--", "/bin/true"});
  EXPECT_TRUE(other.Ok()) << "the lease keeps no GPU: " << other.Text();
  waiting.Signal(SIGCONT);
  const Ran ran = waiting.Wait();
  EXPECT_EQ(ran.code, 0) << ran.Text();
  EXPECT_THAT(ran.out, HasSubstr("GPU-"));
}

TEST_F(Lease, CannotBeRequeued) {
  Bell up(site.out_dir() + "/up"), gate(site.out_dir() + "/gate");
  Child child = Ask(fmt::format("echo up > {}; read x < {}", up.path(), gate.path()));
  ASSERT_EQ(up.Hear(), "up");
  site.AwaitState(1, "running");
  const Ran refused = site.Carma({"requeue", "1"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.Text(), HasSubstr("carmad did not start its process"));
  WriteText(gate.path(), "go\n");
  EXPECT_EQ(child.Wait().code, 0) << "it runs on";
}

TEST_F(Lease, EachLeaseRunsOnceDespiteManyKills) {
  constexpr int kLeases = 30, kKills = 15;
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  std::vector<Child> children(kLeases);
  for (Child& child : children) child = Ask("echo $CARMA_TASK_ID >> ran", {"--memory", "9G"});
  ExpectWaiting(kLeases);
  ASSERT_TRUE(site.Carma({"resume", "all"}).Ok());
  for (int i = 0; i < kKills; ++i) site.Restart(SIGKILL);
  for (Child& child : children) {
    const Ran ended = child.Wait();
    EXPECT_EQ(ended.code, 0) << ended.Text();
  }
  std::istringstream lines(ReadText(site.out_dir() + "/ran"));
  std::set<std::string> ran;
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(ran.insert(line).second) << line << " ran twice";
  EXPECT_EQ(ran.size(), children.size()) << "as many starts as leases";
  for (std::uint64_t id = 1; id <= kLeases; ++id)
    EXPECT_EQ(site.Await(id).state, "succeeded") << id;
  site.ExpectIdle();
}

TEST_F(Lease, BelongsToItsOwnerAlone) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  Bell up(site.out_dir() + "/up"), gate(site.out_dir() + "/gate");
  Child child = Ask(fmt::format("echo up > {}; read x < {}", up.path(), gate.path()));
  ASSERT_EQ(up.Hear(), "up");
  const auto post = [&](const std::string& path, const std::string& body) {
    return site.CallAs(OtherUser(), "POST", path, body);
  };
  EXPECT_THAT(post("/v1/leases/1/adopt", "{}"), HasSubstr("belongs to root"));
  EXPECT_THAT(post("/v1/leases/1/end", "{}"), HasSubstr("belongs to root"));
  const std::string spec =
      R"({"spec":{"name":"x","command":["x"],"workdir":"/","memory_mib":1000},"pid":)";
  EXPECT_THAT(post("/v1/leases", spec + fmt::format("{}}}", child.pid())),
              HasSubstr("belongs to another user"));
  EXPECT_THAT(post("/v1/leases", spec + "4194000}"), HasSubstr("does not exist or is not visible"));
  EXPECT_THAT(post("/v1/tasks", R"({"tasks":[{"name":"x","command":["x"],"workdir":"/",)"
                                R"("lease":"1 1 b"}]})"),
              HasSubstr("not allowed in a submission"));
  WriteText(gate.path(), "go\n");
  EXPECT_EQ(child.Wait().code, 0);
}

}  // namespace
}  // namespace carma::system_test

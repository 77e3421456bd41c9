// Tests faulty GPUs, programs that cause GPU faults, tasks that hold GPUs without using them, and
// programs that CARMA did not start, with real processes on a simulated server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

class Health : public ::testing::Test {
 protected:
  void Sim(const Words& words) {
    const Ran ran = site.SimGpu(words);
    ASSERT_TRUE(ran.Ok()) << ran.Text();
  }
  api::GpuView Gpu(std::int64_t index) {
    const std::vector<api::GpuView> gpus = site.Gpus();
    return gpus.size() > static_cast<std::size_t>(index) ? gpus[static_cast<std::size_t>(index)]
                                                         : api::GpuView{};
  }
  bool Comes(std::int64_t index, const std::string& state) {
    return Eventually([&] { return Gpu(index).state == state; });
  }

  Site site;
};

// A queue of tasks on a server whose driver breaks. While the driver is broken, each task fails
// with the error that PyTorch would print.
class Breaker : public ::testing::Test {
 protected:
  Breaker() { WriteText(order(), ""); }
  void Start() {
    site.Start(true, {.environment = {{"LD_LIBRARY_PATH", CARMA_FAKE_CUDA_FOLDER},
                                      {"CARMA_FAKE_CUDA", "@" + order()}}});
  }
  std::string order() const { return site.folder() / "cuda"; }
  void Break() const { WriteText(order(), "fail=cuInit:802\n"); }
  void Repair() const { WriteText(order(), ""); }
  std::string Script() const {
    return "echo x >> starts; if grep -q fail " + order() +
           "; then echo x >> failed; echo 'RuntimeError: CUDA error: system not yet initialized' "
           ">&2; exit 1; fi";
  }
  std::size_t Lines(const std::string& name) const {
    const std::string text = ReadText(site.out_dir() + "/" + name);
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

  Site site{{.shape = "4xA100-40GB", .time_scale = 20}};
};

TEST_F(Breaker, ABrokenDriverDoesNotFailTheWholeQueue) {
  Start();
  std::uint64_t first = 0;
  for (const char* name : {"a", "b"}) {
    const std::uint64_t id = site.Submit(
        {"--array", "0-99", "-J", name, "-o", "/dev/null", "--", "/bin/sh", "-c", Script()});
    if (first == 0) first = id;
  }
  ASSERT_TRUE(Eventually([&] { return Lines("starts") >= 20; }));
  Break();
  ASSERT_TRUE(Eventually([&] {
    const std::vector<api::GpuView> gpus = site.Gpus();
    return std::ranges::all_of(gpus, [](const auto& gpu) { return gpu.drained_by_rule; });
  }));
  EXPECT_THAT(site.Gpus().at(0).trouble, HasSubstr("CUDA does not work there"));
  EXPECT_LE(Lines("failed"), 6U);
  EXPECT_THAT(site.Carma({"list", "--state", "failed"}).out, Not(HasSubstr("sh")));
  Repair();
  for (std::uint64_t id = first; id < first + 200; ++id) {
    const api::TaskView task = site.Await(id, std::chrono::seconds(120));
    ASSERT_EQ(task.state, "succeeded") << id << ": " << task.reason_text;
  }
  EXPECT_LE(Lines("failed"), 6U);
}

TEST_F(Breaker, ScriptsThatFailByThemselvesCloseNoGpu) {
  Start();
  const std::uint64_t bad = site.Submit({"--array", "0-99", "--", "/bin/sh", "-c", "exit 3"});
  const std::uint64_t no_gpu =
      site.Submit({"--array", "0-99", "--", "/bin/sh", "-c",
                   "echo 'RuntimeError: No CUDA GPUs are available' >&2; exit 1"});
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(site.Await(bad + i, std::chrono::seconds(120)).state, "failed");
    EXPECT_EQ(site.Await(no_gpu + i, std::chrono::seconds(120)).state, "failed");
  }
  for (const api::GpuView& gpu : site.Gpus()) EXPECT_FALSE(gpu.drained_by_rule) << gpu.trouble;
  EXPECT_EQ(site.Task(no_gpu).attempt, 1);
}

TEST_F(Health, AFaultOfTheDeviceDrainsItUntilAPersonResumesIt) {
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t id = gated.Submit(site, "exit 0");
  ASSERT_EQ(gated.Hear(), "1");
  const std::int64_t bad = site.AwaitState(id, "running").gpu_indices.at(0);
  Sim({"xid", std::to_string(bad), "79"});
  ASSERT_TRUE(Comes(bad, "drng")) << "running tasks may continue";
  EXPECT_THAT(Gpu(bad).trouble, HasSubstr("Xid 79: fell off the bus"));
  EXPECT_TRUE(Gpu(bad).drained_by_rule);
  EXPECT_THAT(site.Status().troubles, Contains(HasSubstr("Xid 79")));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""),
              AllOf(HasSubstr("xid=\"79\"} 1"), HasSubstr("by=\"rule\"} 1")));

  site.Restart(SIGKILL);
  ASSERT_TRUE(Comes(bad, "drng")) << "the next daemon remembers the drain";
  EXPECT_TRUE(Gpu(bad).drained_by_rule);
  const std::uint64_t other = site.Submit({"--", "/bin/true"});
  EXPECT_THAT(site.Await(other).gpu_indices, Not(Contains(bad)));

  const Ran resumed = site.Carma({"resume", std::to_string(bad)});
  EXPECT_TRUE(resumed.Ok()) << resumed.Text();
  EXPECT_TRUE(Comes(bad, "mix"));
  site.Restart(SIGTERM);
  EXPECT_TRUE(Comes(bad, "mix")) << "and it stays open";
  gated.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
}

TEST_F(Health, NewRulesOpenGpusThatOldRulesClosed) {
  site.Start();
  Sim({"xid", "1", "79"});
  ASSERT_TRUE(Comes(1, "drain"));
  site.Set("health.drain", "false");
  site.daemon().Signal(SIGHUP);
  ASSERT_TRUE(Comes(1, "idle"));
  EXPECT_THAT(Gpu(1).alerts, Contains(HasSubstr("reported only, because health.drain is false")));
  site.Set("health.drain", "true");
  site.daemon().Signal(SIGHUP);
  ASSERT_TRUE(Comes(1, "drain")) << "its cause is still there";
  EXPECT_THAT(site.Carma({"resume", "1"}).code, 0);
  site.Set("health.ignore_xids", "[48]");
  site.daemon().Signal(SIGHUP);
  ASSERT_TRUE(Eventually(
      [&] { return site.daemon().Err().find("key=health.ignore_xids") != std::string::npos; }));
  Sim({"xid", "1", "48"});
  Sim({"xid", "0", "79"});
  ASSERT_TRUE(Comes(0, "drain"));
  EXPECT_EQ(Gpu(1).state, "idle") << "Xid 48 is now ignored";
}

TEST_F(Health, AGpuThatWasResetOpensByItself) {
  site.Start();
  const auto says = [&](const std::string& why) {
    return Eventually([&] { return Gpu(1).trouble.find(why) != std::string::npos; });
  };
  Sim({"damage", "1", "--recovery", "drain-and-reset"});
  ASSERT_TRUE(says("drained and reset")) << Gpu(1).trouble;
  EXPECT_EQ(Gpu(1).state, "drain");
  Sim({"xid", "1", "95"});
  ASSERT_TRUE(says("Xid 95")) << Gpu(1).trouble;
  Sim({"reset", "1"});
  EXPECT_TRUE(Comes(1, "idle")) << Gpu(1).trouble;
  EXPECT_FALSE(Gpu(1).drained_by_rule);
}

TEST_F(Health, ADrainByAPersonIsNotOpenedByRule) {
  site.Start();
  Gated gated(site, "gated");
  for (int task = 0; task < 2; ++task) {
    gated.Submit(site, "exit 0", {"--exclusive"});
    ASSERT_TRUE(gated.Hear());
  }
  EXPECT_TRUE(site.Carma({"drain", "1", "--reason", "fan noise"}).Ok());
  Sim({"damage", "1", "--remap-pending"});
  EXPECT_TRUE(Eventually([&] { return !site.Status().troubles.empty(); })) << "a task is there";
  Sim({"reset", "1"});
  EXPECT_TRUE(Eventually([&] { return site.Status().troubles.empty(); }));
  EXPECT_EQ(Gpu(1).state, "drng");
  EXPECT_THAT(Gpu(1).trouble, HasSubstr("fan noise"));
  for (int task = 0; task < 2; ++task) gated.Open();
  EXPECT_TRUE(Comes(1, "drain"));
}

TEST_F(Health, AnAlertWithoutADrainClosesNothing) {
  site.Set("health.drain", "false");
  site.Start();
  Sim({"xid", "0", "79"});
  EXPECT_TRUE(Eventually([&] { return !Gpu(0).alerts.empty(); }));
  EXPECT_THAT(Gpu(0).alerts, Contains(HasSubstr("Xid 79")));
  EXPECT_EQ(Gpu(0).state, "idle");
}

TEST_F(Health, AGpuThatIsLostAtTheStartDoesNotCloseTheOthers) {
  Sim({"fault", "--gpu", "0", "--kind", "lost"});
  site.Start();
  ASSERT_TRUE(Comes(0, "down"));
  EXPECT_THAT(Gpu(0).trouble, Not(IsEmpty()));
  const std::uint64_t id = site.Submit({"--", "/bin/true"});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "succeeded");
  EXPECT_THAT(task.gpu_indices, testing::ElementsAre(1));
}

TEST_F(Health, AForeignProcessIsShownWithItsUserAndCommand) {
  site.Start();
  Child stranger = Child::Start({Program("carma-simgpu"), "hold", "--state", site.gpus_file(),
                                 "--gpu", "1", "--mib", "3000"});
  // Waits for the program's name, which appears later than the process, because it takes longer to
  // read.
  ASSERT_TRUE(Eventually([&] {
    const api::GpuView gpu = Gpu(1);
    return !gpu.foreign.empty() && gpu.foreign[0].command.starts_with(Program("carma-simgpu"));
  }));
  const api::GpuView gpu = Gpu(1);
  ASSERT_EQ(gpu.foreign.size(), 1U);
  EXPECT_EQ(gpu.foreign[0].pid, stranger.pid());
  const passwd* self = ::getpwuid(::getuid());
  EXPECT_EQ(gpu.foreign[0].user, self != nullptr ? self->pw_name : std::to_string(::getuid()));
  EXPECT_THAT(gpu.foreign[0].command, HasSubstr("carma-simgpu hold"));
  EXPECT_EQ(gpu.foreign[0].used_mib, 3'000);
  EXPECT_EQ(gpu.foreign_processes, 1);
  EXPECT_EQ(gpu.unattributed_mib, 0);
  stranger.Signal(SIGTERM);
  stranger.Wait();
  EXPECT_TRUE(Eventually([&] { return Gpu(1).foreign.empty(); }));
}

TEST_F(Health, ShowsAllValues) {
  site.Start();
  const std::uint64_t id =
      site.Train({}, {.memory_mib = 4'000, .solo_s = 100'000, .sm_active = 0.4});
  const std::int64_t on = site.AwaitState(id, "running").gpu_indices.at(0);
  ASSERT_TRUE(Eventually([&] {
    const api::GpuView gpu = Gpu(on);
    return gpu.tasks.size() == 1 && gpu.tasks[0].sm_active.value_or(0) > 0.3 &&
           gpu.tasks[0].observed_mib == 4'000;
  }));
  const api::GpuView gpu = Gpu(on);
  EXPECT_EQ(gpu.tasks[0].sm_active_by, "alone");
  EXPECT_GT(gpu.sm_active_p95.value_or(0), 0);
  EXPECT_GT(gpu.sm_active_ewma.value_or(0), 0);
  EXPECT_EQ(gpu.activity_source, "gpm");
  EXPECT_EQ(gpu.activity_rule, "");
  const auto of = [&](const std::string& name) {
    return std::find_if(gpu.metrics.begin(), gpu.metrics.end(),
                        [&](const auto& metric) { return metric.name == name; });
  };
  ASSERT_NE(of("sm_active"), gpu.metrics.end());
  EXPECT_EQ(of("sm_active")->source, "gpm");
  ASSERT_NE(of("power_w"), gpu.metrics.end());
  EXPECT_EQ(of("power_w")->source, "nvml");
}

TEST_F(Health, ShowsTheRuleForGpusWithoutActivity) {
  site.Set("monitor.source", "\"dcgm\"");
  site.Start(true, {.environment = {{"PATH", site.out_dir()}}});  // without dcgmi
  ASSERT_TRUE(Eventually([&] { return Gpu(0).activity_source == "none"; }));
  EXPECT_FALSE(Gpu(0).sm_active);
  EXPECT_THAT(Gpu(0).activity_rule, HasSubstr("policy.without_sm_activity"));
}

// ---- causes of faults; the clock is slower, so that an Xid is still new on a busy machine ----

class GpuFaults : public ::testing::Test {
 protected:
  GpuFaults() : site({.time_scale = 10, .settings = {{"monitor.sample_period", "\"1s\""}}}) {}
  void SetUp() override { site.Start(); }
  std::string StateOf(std::int64_t gpu) {
    return site.Gpus().at(static_cast<std::size_t>(gpu)).state;
  }
  Site site;
};

TEST_F(GpuFaults, ATaskThatAFaultOfTheDeviceEndedStartsElsewhereUncharged) {
  Gated gated(site, "gated");
  const std::uint64_t id = gated.Submit(
      site,
      "[ $CARMA_ATTEMPT = 2 ] || { echo 'CUDA error: unspecified launch failure' >&2; exit 1; }");
  ASSERT_EQ(gated.Hear(), "1");
  const std::int64_t bad = site.AwaitState(id, "running").gpu_indices.at(0);
  const Ran told = site.SimGpu({"xid", std::to_string(bad), "79"});
  ASSERT_TRUE(told.Ok()) << told.Text();
  gated.Open();
  ASSERT_EQ(gated.Hear(), "2");
  const api::TaskView again = site.AwaitState(id, "running");
  EXPECT_NE(again.gpu_indices.at(0), bad);
  EXPECT_EQ(again.ooms, 0);
  EXPECT_TRUE(Eventually([&] { return StateOf(bad) == "drain"; }));
  gated.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
}

TEST_F(GpuFaults, AProgramsOwnFaultFailsItAndTheGpuStaysOpen) {
  const std::uint64_t id = site.Train(
      {}, {.memory_mib = 1'000, .solo_s = 1, .more = {"--fault-at", "0.5", "--load-s", "0"}});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "failed");
  EXPECT_EQ(task.reason, "GpuFault");
  EXPECT_EQ(task.attempt, 1);
  EXPECT_TRUE(Eventually([&] { return StateOf(task.gpu_indices.at(0)) == "idle"; }));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""), HasSubstr("xid=\"31\"} 1"));
}

// ---- idle holders ----

class IdleHolders : public Health {
 protected:
  IdleHolders() {
    site.Set("idle.after", "\"5m\"");
    // Ten periods without a reading count as a gap, so the period is long enough to avoid gaps
    // even on a busy machine.
    site.Set("monitor.sample_period", "\"1m\"");
    site.Set("monitor.window", "\"2m\"");
    const std::string tell = site.folder() / "tell";
    WriteText(tell, "#!/bin/sh\ncat >> " + told() + "\n", 0755);
    site.Set("notify.admin", "[\"" + tell + "\"]");
  }
  std::string told() const { return site.out_dir() + "/told"; }
  // Submits a task that has exclusive GPUs but does not use them until its gate opens.
  std::uint64_t Holds(const Gated& gated, const Words& options = {"--gpus", "2", "--exclusive"}) {
    return gated.Submit(site,
                        "exec " + Program("carma-simtask") +
                            " --memory-mib 1000 --solo-s 100000 --sm-active 0.3 --load-s 0",
                        options);
  }
  bool IsTold(std::uint64_t id) {
    return Eventually([&] { return site.Task(id).idle_since_ms.has_value(); });
  }
};

TEST_F(IdleHolders, AreReportedUntilTheyWork) {
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t id = Holds(gated);
  ASSERT_EQ(gated.Hear(), "1");
  ASSERT_TRUE(IsTold(id));
  const api::TaskView task = site.Task(id);
  EXPECT_EQ(task.state, "running");
  EXPECT_GE(*task.idle_since_ms, *task.launched_ms);
  EXPECT_TRUE(Eventually([&] { return !ReadText(told()).empty(); }));
  EXPECT_THAT(ReadText(told()),
              AllOf(HasSubstr("\"event\":\"idle_holder\""),
                    HasSubstr("\"task\":" + std::to_string(id)), HasSubstr("\"action\":\"tell\"")));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""), HasSubstr("carma_idle_holders 1"));

  // A daemon that is killed while sending a notice sends it again after the restart.
  ASSERT_TRUE(Eventually([&] {
    const std::string history = site.Carma({"history"}).out;
    return history.find(" notified") != std::string::npos;
  }));
  site.Restart(SIGKILL);
  EXPECT_EQ(site.Task(id).idle_since_ms, task.idle_since_ms) << "the database keeps it";
  gated.Open();
  EXPECT_TRUE(Eventually([&] { return !site.Task(id).idle_since_ms; })) << "it works now";
  const std::string lines = ReadText(told());
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << "told once";
}

TEST_F(IdleHolders, ShareTheirGpuIfThePolicyAllowsIt) {
  site.Set("idle.action", "\"share\"");
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t id = Holds(gated);
  ASSERT_EQ(gated.Hear(), "1");
  const std::uint64_t waits = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  EXPECT_EQ(site.Await(waits).state, "succeeded");
  EXPECT_EQ(site.Task(id).state, "running");
}

TEST_F(IdleHolders, AreEndedIfThePolicyRequiresIt) {
  site.Set("idle.action", "\"end\"");
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t id = Holds(gated);
  const std::uint64_t works =
      site.Train({"--gpu-mem", "2G"}, {.memory_mib = 1'000, .solo_s = 100'000, .sm_active = 0.3});
  const api::TaskView ended = site.Await(id);
  EXPECT_EQ(ended.reason, "IdleHolder");
  EXPECT_THAT(ended.reason_text, HasSubstr("without using them"));
  EXPECT_EQ(site.AwaitState(works, "running").idle_since_ms, std::nullopt);
}

}  // namespace
}  // namespace carma::system_test

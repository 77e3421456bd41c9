// Tests a driver that hangs, disappears, returns wrong values or loses a GPU. The GPUs are closed
// with a visible reason, and the daemon keeps serving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// Response deadline for the daemon while the driver hangs.
constexpr std::chrono::seconds kPrompt{5};

class DriverFaults : public ::testing::Test {
 protected:
  DriverFaults() : site({.settings = {{"monitor.probe_timeout", "\"300ms\""}}}) {}
  void SetUp() override {
    site.Start();
    // Until the first readings, all GPUs are down, although none has a fault.
    ASSERT_TRUE(Eventually([&] { return AllAre("idle"); }));
  }
  void TearDown() override { site.SimGpu({"clear"}); }

  void Fault(const Words& words) {
    Words args = {"fault", "--kind"};
    args.insert(args.end(), words.begin(), words.end());
    const Ran ran = site.SimGpu(args);
    ASSERT_TRUE(ran.Ok()) << ran.Text();
  }
  void Clear() {
    const Ran ran = site.SimGpu({"clear"});
    ASSERT_TRUE(ran.Ok()) << ran.Text();
  }
  std::vector<std::string> States() {
    std::vector<std::string> states;
    for (const api::GpuView& gpu : site.Gpus()) states.push_back(gpu.state);
    return states;
  }
  bool AllAre(const std::string& state) {
    const std::vector<std::string> states = States();
    return std::count(states.begin(), states.end(), state) ==
           static_cast<std::ptrdiff_t>(states.size());
  }

  Site site;
};

TEST_F(DriverFaults, AHangingDriverClosesItsGpusAndTheDaemonKeepsServing) {
  Gated gated(site, "gated");
  const std::uint64_t runs = gated.Submit(site, "exit 3");
  ASSERT_EQ(gated.Hear(), "1");
  Fault({"hang", "--driver"});
  ASSERT_TRUE(Eventually([&] { return AllAre("down"); }));
  EXPECT_THAT(site.Gpus()[0].trouble, HasSubstr("not answered"));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_THAT(site.Carma({"status"}).out, HasSubstr("not answered"));
  const std::uint64_t waits = site.Submit({"--", "/bin/true"});
  site.ExpectWaits(waits, "GpuHealth");
  EXPECT_THAT(site.Carma({"explain", std::to_string(waits)}).out, HasSubstr("not answered"));
  gated.Open();
  EXPECT_EQ(site.Await(runs).exit_code, 3) << "running tasks continue and end as usual";
  EXPECT_LT(std::chrono::steady_clock::now() - before, kPrompt);
  Clear();
  EXPECT_EQ(site.Await(waits).state, "succeeded") << "sampling goes on";
  EXPECT_TRUE(Eventually([&] { return site.Status().driver == "ok"; }));
}

TEST_F(DriverFaults, ADaemonStopsAlthoughTheDriverHangs) {
  Fault({"hang", "--driver"});
  ASSERT_TRUE(Eventually([&] { return AllAre("down"); }));
  const Ran stopped = site.Stop(SIGTERM);
  EXPECT_EQ(stopped.code, 0) << stopped.Text();
}

TEST_F(DriverFaults, ADaemonStartsWithItsTasksAlthoughTheDriverHangs) {
  Gated gated(site, "gated");
  const std::uint64_t runs = gated.Submit(site, "exit 3");
  ASSERT_EQ(gated.Hear(), "1");
  site.Stop(SIGKILL);
  Fault({"hang", "--driver"});
  site.Start();
  EXPECT_EQ(site.AwaitState(runs, "running").gpu_uuids.size(), 1U);
  EXPECT_TRUE(AllAre("down"));
  gated.Open();
  EXPECT_EQ(site.Await(runs).exit_code, 3);
  Clear();
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
}

TEST_F(DriverFaults, ClosesOnlyTheHangingGpuUntilItAnswers) {
  Gated gated(site, "gated");
  const std::uint64_t runs = gated.Submit(site, "exit 3");
  ASSERT_EQ(gated.Hear(), "1");
  const auto sick = static_cast<std::size_t>(site.AwaitState(runs, "running").gpu_indices.at(0));
  Fault({"hang", "--gpu", std::to_string(sick)});
  ASSERT_TRUE(Eventually([&] { return States()[sick] == "down"; }));
  EXPECT_THAT(site.Gpus()[sick].trouble, HasSubstr("not answered"));
  for (int task = 0; task < 3; ++task) {
    const api::TaskView other = site.Await(site.Submit({"--", "/bin/true"}));
    EXPECT_EQ(other.state, "succeeded");
    EXPECT_EQ(other.gpu_indices.at(0), sick == 0 ? 1 : 0);
  }
  EXPECT_EQ(States()[1 - sick], "idle");
  const std::string gpu = std::to_string(sick);
  EXPECT_EQ(site.Carma({"drain", gpu, "--reason", "reset"}).out,
            "GPU " + gpu + " accepts no new tasks; running tasks continue\n");
  EXPECT_EQ(States()[sick], "drng");
  EXPECT_THAT(site.Gpus()[sick].trouble, AllOf(HasSubstr("reset; "), HasSubstr("not answered")));
  gated.Open();
  EXPECT_EQ(site.Await(runs).exit_code, 3) << "running tasks continue and end as usual";
  EXPECT_TRUE(Eventually([&] { return States()[sick] == "drain"; }));
  Clear();
  ASSERT_TRUE(site.Carma({"resume", gpu}).Ok());
  EXPECT_TRUE(Eventually([&] { return AllAre("idle"); }));
}

TEST_F(DriverFaults, ADaemonStartsWithoutAGpuThatHangs) {
  Gated gated(site, "gated");
  const std::uint64_t first = gated.Submit(site, "exit 3");
  const std::uint64_t runs = gated.Submit(site, "exit 3", {"--exclusive"});
  ASSERT_EQ(site.AwaitState(runs, "running").gpu_indices.at(0), 1);
  site.AwaitState(first, "running");
  site.Stop(SIGTERM);
  Fault({"hang", "--gpu", "1"});
  site.Start();
  // Both GPUs are down until the first readings arrive.
  EXPECT_TRUE(Eventually([&] {
    return States()[0] != "down" &&
           site.Gpus()[1].trouble.find("not answered") != std::string::npos;
  })) << site.Gpus()[1].trouble;
  EXPECT_EQ(States()[1], "down");
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).gpu_indices.at(0), 0);
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              AllOf(HasSubstr("gpu 1"), HasSubstr("not answered"), HasSubstr("drain the GPU")));
  gated.Open();
  gated.Open();
  EXPECT_EQ(site.Await(first).exit_code, 3);
  EXPECT_EQ(site.Await(runs).exit_code, 3);
  EXPECT_EQ(site.Task(runs).attempt, 1) << "a hanging GPU is not lost";
  Clear();
  EXPECT_TRUE(Eventually([&] { return AllAre("idle"); }));
}

TEST_F(DriverFaults, ADrainedGpuIsNotRead) {
  ASSERT_TRUE(site.Carma({"drain", "0"}).Ok());
  ASSERT_TRUE(Eventually([&] { return States() == Words{"drain", "idle"}; }));
  Fault({"hang", "--gpu", "0"});
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).gpu_indices.at(0), 1);
  site.Restart(SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    return States() == Words{"drain", "idle"};
  })) << site.Carma({"gpus"}).out;
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).gpu_indices.at(0), 1);
  Clear();
  ASSERT_TRUE(site.Carma({"resume", "0"}).Ok());
  EXPECT_TRUE(Eventually([&] { return AllAre("idle"); }));
}

TEST_F(DriverFaults, AVanishedDriverClosesEverythingUntilItIsBack) {
  Fault({"vanish", "--driver"});
  ASSERT_TRUE(Eventually([&] { return AllAre("down"); }));
  const std::uint64_t waits = site.Submit({"--", "/bin/true"});
  site.ExpectWaits(waits, "GpuHealth");
  EXPECT_FALSE(site.Status().troubles.empty());
  Clear();
  EXPECT_EQ(site.Await(waits).state, "succeeded");
}

TEST_F(DriverFaults, TheTasksOfALostGpuStartOnceElsewhere) {
  Gated gated(site, "gated");
  const std::uint64_t id = gated.Submit(site, "exit 0");
  ASSERT_EQ(gated.Hear(), "1");
  const std::int64_t lost = site.AwaitState(id, "running").gpu_indices.at(0);
  Fault({"lost", "--gpu", std::to_string(lost)});
  ASSERT_EQ(gated.Hear(), "2");
  const api::TaskView second = site.AwaitState(id, "running");
  EXPECT_NE(second.gpu_indices.at(0), lost);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_EQ(site.Gpus().at(static_cast<std::size_t>(lost)).state, "down");
  gated.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
}

TEST_F(DriverFaults, AGpuWithWrongValuesIsClosed) {
  for (const char* lie : {"nan-activity", "used-over-total", "no-memory-value"}) {
    Fault({lie, "--gpu", "0"});
    EXPECT_TRUE(Eventually([&] { return States() == Words{"down", "idle"}; })) << lie;
    EXPECT_NE(site.Gpus()[0].trouble, "") << lie;
    const std::uint64_t id = site.Submit({"--", "/bin/true"});
    EXPECT_EQ(site.Await(id).gpu_indices.at(0), 1) << lie;
    Clear();
    EXPECT_TRUE(Eventually([&] { return AllAre("idle"); })) << lie;
  }
}

TEST_F(DriverFaults, ACallThatFailsClosesItsGpuAlone) {
  const Words faults[] = {
      {"error", "--code", "TIMEOUT", "--function", "nvmlDeviceGetPowerUsage"},
      {"error", "--code", "UNKNOWN", "--function", "nvmlDeviceGetMemoryInfo_v2"},
      {"error", "--code", "MEMORY", "--function", "nvmlDeviceGetComputeRunningProcesses_v3"},
      {"error", "--code", "RESET_REQUIRED"},
      {"vanish"},
  };
  for (Words fault : faults) {
    SCOPED_TRACE(fault.back());
    fault.insert(fault.end(), {"--gpu", "0"});
    Fault(fault);
    EXPECT_TRUE(Eventually([&] { return States() == Words{"down", "idle"}; }));
    EXPECT_NE(site.Gpus()[0].trouble, "");
    const std::uint64_t id = site.Submit({"--", "/bin/true"});
    EXPECT_EQ(site.Await(id).gpu_indices.at(0), 1);
    Clear();
    EXPECT_TRUE(Eventually([&] { return AllAre("idle"); }));
  }
}

TEST_F(DriverFaults, AMissingValueClosesNoGpu) {
  Fault({"error", "--code", "UNKNOWN", "--function", "nvmlDeviceGetTotalEccErrors", "--gpu", "0"});
  for (const char* function : {"nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"})
    Fault({"error", "--code", "NOT_SUPPORTED", "--function", function, "--gpu", "0"});
  // A missing temperature proves that a reading was taken after the faults were set.
  ASSERT_TRUE(Eventually([&] { return !site.Gpus()[0].temperature_c; }));
  EXPECT_TRUE(Eventually([&] { return AllAre("idle"); }));
  EXPECT_TRUE(site.Gpus()[1].temperature_c);
}

TEST_F(DriverFaults, ListsAnUnreadableGpuAndUsesTheOthers) {
  site.Stop(SIGTERM);
  Fault({"error", "--code", "UNKNOWN", "--function", "nvmlDeviceGetUUID", "--gpu", "0"});
  site.Start();
  ASSERT_EQ(site.Gpus().size(), 2U);
  EXPECT_TRUE(Eventually([&] { return States() == Words{"down", "idle"}; }));
  EXPECT_THAT(site.Gpus()[0].trouble, HasSubstr("UUID"));
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).gpu_indices.at(0), 1);
  Clear();
  site.Restart(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return AllAre("idle"); }));
}

TEST(NoDriver, TheDaemonServesStatusWithTheReason) {
  Site site({.settings = {{"monitor.nvml_library", "\"/no/such/libnvidia-ml.so.1\""}}});
  site.Start(false);
  ASSERT_TRUE(Eventually([&] { return !site.Status().starting; }));
  const Ran status = site.Carma({"status"});
  EXPECT_EQ(status.code, 0);
  EXPECT_THAT(status.out, HasSubstr("/no/such/libnvidia-ml.so.1"));
  const Ran refused = site.Carma({"submit", "--", "/bin/true"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("no GPU: "));
  EXPECT_THAT(refused.err, HasSubstr("; see carma doctor, or carmad --simulate 2xA100-40GB for "));
  // The configuration can be reloaded even without a GPU.
  const std::int64_t read_ms = site.Status().config_read_ms;
  site.Set("policy.margin", "\"100M\"");
  site.daemon().Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return site.Status().config_read_ms > read_ms; }));
  EXPECT_THAT(site.Status().policy, HasSubstr("margin 100M"));
}

}  // namespace
}  // namespace carma::system_test

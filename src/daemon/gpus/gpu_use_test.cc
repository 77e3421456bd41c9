#include "daemon/gpus/gpu_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

namespace carma::daemon {
namespace {

constexpr core::TaskId kMine{7}, kOther{8};
constexpr pid_t kForeign = 1'000'000'007;  // larger than any Linux pid
constexpr base::Duration kTau{10'000};

gpu::ProcessUse Process(pid_t pid, std::optional<std::int64_t> used_mib,
                        std::optional<double> kernel_time = std::nullopt) {
  gpu::ProcessUse process;
  process.pid = pid;
  process.used_mib = used_mib;
  process.kernel_time = kernel_time;
  return process;
}

gpu::Reading ReadingAt(std::int64_t second, double sm_active) {
  gpu::Reading reading;
  reading.taken = base::FromMs(second * 1'000);
  reading.sm_active = sm_active;
  return reading;
}

class GpuUseTest : public ::testing::Test {
 protected:
  GpuUseTest() { attribution_.Add(kMine, base::SelfProcess(), ""); }
  GpuUse UseOf(const gpu::Reading& reading) {
    return WhoUses({reading}, SeeProcesses({reading}), attribution_).at(0);
  }
  Attribution attribution_;
};

TEST_F(GpuUseTest, MemoryOfNoListedProcessIsUnattributed) {
  gpu::Reading reading;
  reading.used_mib = 10'000;
  reading.processes = {Process(::getpid(), 6'000), Process(kForeign, 1'000)};
  const GpuUse use = UseOf(reading);
  EXPECT_EQ(use.tasks.at(kMine).used_mib, 6'000);
  ASSERT_EQ(use.strangers.size(), 1U);
  EXPECT_EQ(use.strangers[0].process.pid, kForeign);
  EXPECT_EQ(use.unattributed_mib, 3'000);
  EXPECT_TRUE(use.memory_told);

  reading.processes.push_back(Process(kForeign + 1, std::nullopt));
  const GpuUse unclear = UseOf(reading);
  EXPECT_EQ(unclear.unattributed_mib, std::nullopt) << "that process may hold all of it";
  EXPECT_FALSE(unclear.memory_told);
}

// For a control group with a limit, the driver reports the memory of the whole group. That value is
// used instead of the sum over the group's processes.
TEST_F(GpuUseTest, TheMemoryOfATasksGroupIsCountedOnce) {
  attribution_.Add(kMine, base::SelfProcess(), "/carma-7");
  gpu::Reading reading;
  reading.used_mib = 10'000;
  reading.processes = {Process(::getpid(), std::nullopt), Process(::getppid(), 900)};
  for (gpu::ProcessUse& each : reading.processes) {
    each.group = "/carma-7";
    each.group_mib = 7'000;
  }
  const GpuUse use = UseOf(reading);
  EXPECT_EQ(use.tasks.at(kMine).used_mib, 7'000);
  EXPECT_TRUE(use.tasks.at(kMine).memory_told);
  EXPECT_TRUE(use.memory_told);
  EXPECT_EQ(use.unattributed_mib, 3'000);

  reading.processes[1].group = "/carma-7/below";
  reading.processes[1].group_mib = 900;
  EXPECT_EQ(UseOf(reading).tasks.at(kMine).used_mib, 7'000);

  for (gpu::ProcessUse& each : reading.processes) each.group = "/another";
  const GpuUse other = UseOf(reading);
  EXPECT_EQ(other.tasks.at(kMine).used_mib, 900) << "that group contains more than the task";
  EXPECT_FALSE(other.memory_told);
}

TEST_F(GpuUseTest, AnMpsServerIsNeitherATaskNorAForeignProcess) {
  gpu::Reading reading;
  reading.used_mib = 6'030;
  reading.processes = {Process(::getpid(), 6'000), Process(::getppid(), 30)};
  reading.processes[1].mps_server = true;  // even though its process belongs to the task
  const GpuUse use = UseOf(reading);
  EXPECT_EQ(use.tasks.at(kMine).used_mib, 6'000);
  ASSERT_EQ(use.strangers.size(), 1U) << "it is still shown";
  EXPECT_EQ(use.ForeignProcesses(), 0);
  EXPECT_EQ(use.unattributed_mib, 0);
}

TEST_F(GpuUseTest, ADisplayServerIsNotAForeignProcess) {
  gpu::Reading reading;
  reading.used_mib = 6'000;
  reading.processes = {Process(::getpid(), 5'000), Process(kForeign, 4)};
  reading.processes[1].graphics = true;
  const GpuUse use = UseOf(reading);
  EXPECT_EQ(use.ForeignProcesses(), 0);
  EXPECT_EQ(use.strangers.size(), 1U);
  EXPECT_EQ(use.unattributed_mib, 996);
  reading.processes[1].used_mib = 900;
  EXPECT_EQ(UseOf(reading).ForeignProcesses(), 1) << "it renders";
  reading.processes[1].used_mib.reset();
  EXPECT_EQ(UseOf(reading).ForeignProcesses(), 1);
}

TEST_F(GpuUseTest, MemoryIsUnattributedIfTheDriverListsNoProcesses) {
  gpu::Reading reading;
  reading.used_mib = 6'000;
  reading.processes_hidden = true;
  const GpuUse use = UseOf(reading);
  EXPECT_FALSE(use.memory_told);
  EXPECT_EQ(use.unattributed_mib, std::nullopt);
}

TEST_F(GpuUseTest, KernelTimeIsKnownOnlyIfAllProcessesReportIt) {
  gpu::Reading reading;
  reading.processes = {Process(::getpid(), 10, 0.75), Process(::getppid(), 10, 0.5)};
  EXPECT_EQ(UseOf(reading).tasks.at(kMine).kernel_time, 1.0) << "the sum is capped at 1";
  reading.processes[1].kernel_time.reset();
  EXPECT_EQ(UseOf(reading).tasks.at(kMine).kernel_time, std::nullopt);
}

GpuUse Two(std::optional<double> mine, std::optional<double> other) {
  GpuUse use;
  use.tasks[kMine].kernel_time = mine;
  use.tasks[kOther].kernel_time = other;
  return use;
}

TEST(SmShares, HaveTheNameOfTheirMethod) {
  struct Case {
    const char* name;
    GpuUse use;
    double mine;
    const char* by;
  };
  GpuUse alone;
  alone.tasks[kMine];
  GpuUse with_server = alone;
  with_server.strangers.push_back({{kForeign, 0}, {}, 30, true, {}});
  GpuUse with_stranger = alone;
  with_stranger.tasks[kMine].kernel_time = 0.2;
  with_stranger.strangers.push_back({{kForeign, 0}, {}, 30, false, 0.6});
  const Case cases[] = {
      {"no other process", alone, 0.8, "alone"},
      {"an MPS server does not count", with_server, 0.8, "alone"},
      {"split by kernel time", Two(0.75, 0.25), 0.6, "kernel-time"},
      {"foreign processes get their share", with_stranger, 0.2, "kernel-time"},
      {"one kernel time is missing", Two(0.75, std::nullopt), 0.4, "equal"},
      {"no kernel time at all", Two(0.0, 0.0), 0.4, "equal"},
  };
  for (const Case& each : cases) {
    SmShares shares;
    shares.Take(ReadingAt(1, 0.8), each.use, kTau);
    ASSERT_TRUE(shares.Of(kMine)) << each.name;
    EXPECT_NEAR(shares.Of(kMine)->sm_active, each.mine, 1e-9) << each.name;
    EXPECT_EQ(shares.Of(kMine)->by, each.by) << each.name;
  }
}

TEST(SmShares, AreSmoothedWithinOneMethod) {
  SmShares shares;
  shares.Take(ReadingAt(0, 0.8), Two(1.0, 0.0), kTau);
  shares.Take(ReadingAt(10, 0.8), Two(0.0, 1.0), kTau);
  EXPECT_NEAR(shares.Of(kMine)->sm_active, 0.8 * std::exp(-1), 1e-9);
  EXPECT_NEAR(shares.Of(kOther)->sm_active, 0.8 * (1 - std::exp(-1)), 1e-9);
  shares.Take(ReadingAt(11, 0.8), Two({}, {}), kTau);
  EXPECT_NEAR(shares.Of(kMine)->sm_active, 0.4, 1e-9);
  gpu::Reading blind = ReadingAt(12, 0);
  blind.sm_active.reset();
  shares.Take(blind, Two({}, {}), kTau);
  EXPECT_FALSE(shares.Of(kMine)) << "without SM activity there are no shares";
}

}  // namespace
}  // namespace carma::daemon

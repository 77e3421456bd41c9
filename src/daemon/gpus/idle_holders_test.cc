#include "daemon/gpus/idle_holders.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/gpus/monitor.h"

namespace carma::daemon {
namespace {

constexpr core::TaskId kHolder{7};
constexpr base::Duration kAfter{60'000};
constexpr base::Duration kGap{10'000};
constexpr HolderSight kIdle = HolderSight::kIdle;
constexpr HolderSight kBusy = HolderSight::kBusy;
constexpr HolderSight kUnknownSight = HolderSight::kUnknown;

base::Time AtSecond(std::int64_t second) {
  return base::FromMs(second * 1'000);
}

class IdleHoldersTest : public ::testing::Test {
 protected:
  std::vector<core::TaskIdle> Look(std::int64_t second, HolderSight sight, int attempt = 1) {
    return holders_.Take(AtSecond(second), {{kHolder, attempt, in_books_, sight}});
  }
  // Reports this verdict every five seconds in [from, to]. Returns the number of resulting events.
  std::size_t Looks(std::int64_t from, std::int64_t to, HolderSight sight) {
    std::size_t events = 0;
    for (std::int64_t second = from; second <= to; second += 5)
      events += Look(second, sight).size();
    return events;
  }

  IdleHolders holders_{kAfter, kGap};
  std::optional<base::Time> in_books_;
};

TEST_F(IdleHoldersTest, ReportsTheBeginningAndEndOfIdlenessOnce) {
  EXPECT_EQ(Looks(0, 55, kIdle), 0U);
  const std::vector<core::TaskIdle> told = Look(60, kIdle);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].id, kHolder);
  EXPECT_EQ(told[0].attempt, 1);
  EXPECT_EQ(told[0].since, AtSecond(0));
  EXPECT_EQ(Looks(65, 200, kIdle), 0U);
  const std::vector<core::TaskIdle> over = Look(205, kBusy);
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].since, std::nullopt);
  EXPECT_EQ(Looks(210, 300, kBusy), 0U);
}

TEST_F(IdleHoldersTest, AMomentOfWorkRestartsTheIdleTime) {
  Looks(0, 55, kIdle);
  Look(58, kBusy);
  EXPECT_EQ(Looks(60, 115, kIdle), 0U);
  EXPECT_EQ(Look(120, kIdle).size(), 1U);
}

TEST_F(IdleHoldersTest, UnwatchedTimeNeverCountsAsIdle) {
  Looks(0, 55, kIdle);
  Look(58, kUnknownSight);
  EXPECT_EQ(Looks(60, 115, kIdle), 0U) << "a reading failed";
  Looks(200, 255, kIdle);
  EXPECT_EQ(Look(400, kIdle).size(), 0U) << "there was no reading for a while";
}

TEST_F(IdleHoldersTest, AnIdleHolderStaysIdleAcrossAGap) {
  Looks(0, 60, kIdle);
  EXPECT_EQ(Look(70, kUnknownSight).size() + Looks(500, 600, kIdle), 0U);
  EXPECT_EQ(Look(605, kBusy).size(), 1U);
}

TEST_F(IdleHoldersTest, ARestartKeepsTheStoredState) {
  in_books_ = AtSecond(-500);
  EXPECT_EQ(Looks(0, 200, kIdle), 0U) << "an earlier daemon reported it";
  EXPECT_EQ(Look(205, kBusy).size(), 1U);
}

TEST_F(IdleHoldersTest, ANewAttemptRestartsTheIdleTime) {
  Looks(0, 60, kIdle);
  EXPECT_EQ(Look(65, kIdle, 2).size(), 0U);
  EXPECT_EQ(Look(70, kBusy, 2).size(), 0U);
}

// A reading of a GPU on which the task has a process, and the expected verdict.
struct SightCase {
  const char* name;
  std::optional<std::int64_t> used_mib;  // memory of the task's process
  std::optional<double> kernel_time;
  std::optional<double> sm_active;  // SM activity of the GPU
  std::optional<double> utilization;
  HolderSight expected;
};

TEST(LookAtHolder, JudgesByMemoryActivityAndKernels) {
  const SightCase cases[] = {
      {"works", 500, {}, 0.4, 0.9, kBusy},
      {"holds memory, nothing runs", 500, {}, 0.01, 0.9, kIdle},
      {"holds no memory", 0, {}, 0.9, 0.9, kIdle},
      {"unknown memory on a busy GPU", {}, {}, 0.9, 0.9, kBusy},
      {"only the neighbours work", 500, 0.0, 0.9, 0.9, kIdle},
      {"works next to others", 500, 0.1, 0.9, 0.9, kBusy},
      {"no SM activity reported, kernels run", 500, {}, {}, 0.3, kBusy},
      {"no SM activity reported, no kernels run", 500, {}, {}, 0.0, kIdle},
      {"nothing is told", 500, {}, {}, {}, kUnknownSight},
  };
  for (const SightCase& each : cases) {
    Monitor monitor({{"GPU-a", "NVIDIA A100", "00000000:07:00.0", 40'960, 424, true}}, {});
    Attribution attribution;
    attribution.Add(kHolder, base::SelfProcess(), "");
    gpu::Reading reading;
    reading.taken = AtSecond(1);
    reading.total_mib = 40'960;
    reading.used_mib = 500;
    reading.sm_active = each.sm_active;
    reading.utilization = each.utilization;
    gpu::ProcessUse process;
    process.pid = ::getpid();
    process.used_mib = each.used_mib;
    process.kernel_time = each.kernel_time;
    reading.processes = {process};
    core::TaskRecord record;
    record.id = kHolder;
    record.attempt.Edit().placement = {{core::GpuIndex{0}, 1'000}};
    EXPECT_EQ(LookAtHolder(record, monitor, 0.01).sight, kUnknownSight)
        << each.name << ": not yet read";
    const gpu::Round round{reading};
    monitor.Take(AtSecond(1), round, WhoUses(round, SeeProcesses(round), attribution));
    EXPECT_EQ(LookAtHolder(record, monitor, 0.01).sight, each.expected) << each.name;
    reading.processes.clear();
    reading.taken = AtSecond(2);
    monitor.Take(AtSecond(2), {reading});
    EXPECT_EQ(LookAtHolder(record, monitor, 0.01).sight, kIdle) << each.name << ": process gone";
    monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"});
    EXPECT_EQ(LookAtHolder(record, monitor, 0.01).sight, kUnknownSight) << each.name << ": silent";
  }
}

}  // namespace
}  // namespace carma::daemon

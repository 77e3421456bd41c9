#include "daemon/gpus/monitor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <variant>

namespace carma::daemon {
namespace {

using Words = std::vector<std::string>;

gpu::DeviceInfo Device(const std::string& uuid) {
  return {uuid, "NVIDIA A100", "00000000:07:00.0", 40'960, 424, true};
}

gpu::Reading FullReadingAt(std::int64_t second, std::int64_t used_mib, double sm_active,
                           double energy_j) {
  gpu::Reading reading;
  reading.taken = base::FromMs(second * 1000);
  reading.total_mib = 40'960;
  reading.reserved_mib = 424;
  reading.used_mib = used_mib;
  reading.sm_active = sm_active;
  reading.energy_j = energy_j;
  return reading;
}

std::vector<core::Event> Take(Monitor& monitor, std::int64_t second,
                              gpu::ReadResult<gpu::Reading> reading) {
  Attribution attribution;
  const gpu::Round round{std::move(reading)};
  return monitor.Take(base::FromMs(second * 1000), round, WhoUses(round, {}, attribution));
}

TEST(Monitor, AReadingBecomesASampleWithItsWindow) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  Take(monitor, 0, FullReadingAt(0, 0, 0.0, 0));
  const std::vector<core::Event> events = Take(monitor, 2, FullReadingAt(2, 5'000, 0.5, 100));
  ASSERT_EQ(events.size(), 1u);
  const core::GpuSample& sample = std::get<core::GpuSampled>(events[0]).sample;
  EXPECT_EQ(sample.used_mib, 5'000);
  EXPECT_EQ(sample.window_from, base::FromMs(0));
  EXPECT_TRUE(sample.sm_active);
}

TEST(Monitor, ATroubleNamesItsGpuOnce) {
  Monitor monitor({Device("GPU-a"), Device("GPU-b")}, MonitorOptions{});
  for (const char* known_as : {"GPU-a", "0", ""}) {
    Take(monitor, 1, std::unexpected(gpu::ReadError(ErrorCode::kUnavailable, "busy", known_as)));
    EXPECT_EQ(monitor.DriverState(), "GPU 0: busy") << known_as;
  }
  monitor.DriverSilent({ErrorCode::kUnavailable, "no UUID", "GPU-a"});
  EXPECT_EQ(monitor.Troubles(), (Words{"GPU 0: no UUID", "GPU 1: GPU GPU-a: no UUID"}))
      << "an error that affects the whole list is shown for each GPU";
}

TEST(Monitor, ReportsVerdictsOnceAndALostGpuAfterThreeReadings) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  const auto lost = [&](std::int64_t second) {
    return Take(monitor, second,
                std::unexpected(gpu::ReadError(ErrorCode::kNotFound, "GPU is lost", "GPU-a")));
  };
  EXPECT_EQ(monitor.LostNow(core::GpuIndex{0}), "");
  EXPECT_EQ(lost(1).size(), 1u);
  EXPECT_EQ(monitor.LostNow(core::GpuIndex{0}), "GPU is lost");
  EXPECT_EQ(lost(2).size(), 0u);
  const std::vector<core::Event> third = lost(3);
  ASSERT_EQ(third.size(), 1u);
  EXPECT_TRUE(std::get<core::GpuHealthChanged>(third[0]).lost);
  EXPECT_EQ(monitor.DriverState(), "GPU 0: GPU is lost");
  const std::vector<core::Event> back = Take(monitor, 4, FullReadingAt(4, 0, 0, 0));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(monitor.LostNow(core::GpuIndex{0}), "");
  EXPECT_TRUE(std::get<core::GpuHealthChanged>(back[1]).healthy);
}

TEST(Monitor, ASilentDriverClosesEveryGpuAndForgetsTheWindow) {
  Monitor monitor({Device("GPU-a"), Device("GPU-b")}, MonitorOptions{});
  monitor.Take(base::FromMs(0), {FullReadingAt(0, 0, 1, 0), FullReadingAt(0, 0, 1, 0)});
  EXPECT_EQ(monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"}).size(), 2u);
  EXPECT_EQ(monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"}).size(), 0u);
  EXPECT_FALSE(monitor.WindowMean(core::GpuIndex{0}));
}

TEST(Monitor, UsageHasTimeWeightedMeansAndTheEnergyUsed) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  Take(monitor, 0, FullReadingAt(0, 1'000, 0.0, 50));
  Take(monitor, 1, FullReadingAt(1, 1'000, 0.2, 60));
  Take(monitor, 3, FullReadingAt(3, 4'000, 0.8, 110));
  const std::vector<store::GpuUsage> rows = monitor.CloseUsage(base::FromMs(3000));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(rows[0].sm_active, (0.2 * 1 + 0.8 * 2) / 3, 1e-9);
  EXPECT_NEAR(rows[0].used_mib, (1'000.0 * 1 + 4'000.0 * 2) / 3, 1e-9);
  EXPECT_DOUBLE_EQ(rows[0].energy_j, 60);
  EXPECT_TRUE(monitor.CloseUsage(base::FromMs(3000)).empty());
}

TEST(Monitor, ARestartedEnergyCounterSubtractsNothing) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  Take(monitor, 0, FullReadingAt(0, 0, 0.0, 1'000'000));
  Take(monitor, 1, FullReadingAt(1, 0, 0.0, 1'000'060));
  Take(monitor, 2, FullReadingAt(2, 0, 0.0, 5));
  Take(monitor, 3, FullReadingAt(3, 0, 0.0, 45));
  EXPECT_DOUBLE_EQ(monitor.CloseUsage(base::FromMs(3'000)).at(0).energy_j, 60 + 40);
}

TEST(Monitor, TheEnergyOfADividedGpuCountsOnceAndIsKnownForAllInstances) {
  std::vector<gpu::DeviceInfo> devices;
  for (const char* parent : {"GPU-a", "GPU-a", "GPU-b"}) {
    devices.push_back(Device("MIG-" + std::to_string(devices.size())));
    devices.back().mig = gpu::MigPlace{.parent_uuid = parent};
  }
  Monitor monitor(devices, MonitorOptions{});
  for (const std::int64_t second : {0, 1}) {
    gpu::Reading other = FullReadingAt(second, 0, 0, 0);
    other.energy_j.reset();
    monitor.Take(base::FromMs(second * 1'000),
                 {FullReadingAt(second, 0, 0, static_cast<double>(100 * second)), other, other});
  }
  const std::vector<store::GpuUsage> rows = monitor.CloseUsage(base::FromMs(1'000));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].energy_j, 100);
  EXPECT_EQ(rows[1].energy_j, 0);
  EXPECT_TRUE(std::isnan(rows[2].energy_j)) << "no instance reports that GPU's energy";
}

TEST(Monitor, GivesNoVerdictOnGpusThatAreLeftAlone) {
  Monitor monitor({Device("GPU-a"), Device("GPU-b")}, MonitorOptions{});
  monitor.Take(base::FromMs(0), {FullReadingAt(0, 5'000, 0.5, 0), FullReadingAt(0, 5'000, 0.5, 0)});
  const std::vector<core::Event> events =
      monitor.Take(base::FromMs(1'000), {std::nullopt, FullReadingAt(1, 5'000, 0.5, 0)});
  ASSERT_EQ(events.size(), 1U) << "no verdict on GPU 0";
  EXPECT_EQ(std::get<core::GpuSampled>(events[0]).gpu, core::GpuIndex{1});
  EXPECT_FALSE(monitor.Fresh(core::GpuIndex{0}));
  EXPECT_EQ(monitor.WindowMean(core::GpuIndex{0}), std::nullopt);
  EXPECT_EQ(monitor.DriverState(), "ok");
}

TEST(Monitor, RemembersWhichGpusCouldNotBeRead) {
  std::vector<gpu::DeviceInfo> devices{Device("GPU-a"), Device("GPU-b")};
  devices[1].trouble.text = "Unknown Error";
  Monitor monitor(devices, MonitorOptions{});
  const auto readable = [&monitor] {
    return std::pair(monitor.Readable(core::GpuIndex{0}), monitor.Readable(core::GpuIndex{1}));
  };
  monitor.Take(base::FromMs(0), {FullReadingAt(0, 0, 0, 0), std::nullopt});
  EXPECT_EQ(readable(), std::pair(true, false)) << "GPU 1 is drained and never read";
  monitor.Take(base::FromMs(1'000), {FullReadingAt(1, 0, 0, 0), FullReadingAt(1, 0, 0, 0)});
  EXPECT_EQ(readable(), std::pair(true, true));
  Take(monitor, 2, std::unexpected(gpu::ReadError(ErrorCode::kNotFound, "lost", "GPU-a")));
  monitor.Take(base::FromMs(3'000), {std::nullopt, std::nullopt});
  EXPECT_EQ(readable(), std::pair(false, true)) << "GPU 0 was drained after it was lost";
}

TEST(Monitor, ReportsNoOldTroubleOfAGpuThatIsLeftAlone) {
  Monitor monitor({Device("GPU-a"), Device("GPU-b")}, MonitorOptions{});
  monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"});
  monitor.Take(base::FromMs(1'000), {std::nullopt, FullReadingAt(1, 0, 0, 0)});
  EXPECT_EQ(monitor.DriverState(), "ok");
  EXPECT_EQ(monitor.Troubles(), Words{});
  monitor.Take(base::FromMs(2'000), {Unavailable("hangs"), FullReadingAt(2, 0, 0, 0)});
  EXPECT_EQ(monitor.Troubles(), Words{"GPU 0: hangs"});
}

TEST(Monitor, TimeWithoutReadingsBelongsToNoRowOfUsage) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{.window = base::Duration(60'000)});
  Take(monitor, 0, FullReadingAt(0, 1'000, 0.2, 0));
  Take(monitor, 10, FullReadingAt(10, 1'000, 0.2, 100));
  monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"});
  EXPECT_EQ(monitor.CloseUsage(base::FromMs(60'000)).size(), 1U);
  Take(monitor, 20, FullReadingAt(20, 1'000, 0.2, 200));
  monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"});
  Take(monitor, 3'600, FullReadingAt(3'600, 9'000, 0.9, 90'000));
  Take(monitor, 3'601, FullReadingAt(3'601, 9'000, 0.9, 90'050));
  const std::vector<store::GpuUsage> rows = monitor.CloseUsage(base::FromMs(3'601'000));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].to, base::FromMs(20'000));
  EXPECT_DOUBLE_EQ(rows[0].used_mib, 1'000);
  EXPECT_EQ(rows[1].from, base::FromMs(3'600'000));
  EXPECT_DOUBLE_EQ(rows[1].energy_j, 50);
}

TEST(Monitor, UsageKeepsReportedPeaksAndDramActivity) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  const auto busy = [](std::int64_t second, std::int64_t used_mib, double sm,
                       std::optional<double> dram) {
    gpu::Reading reading = FullReadingAt(second, used_mib, sm, 0);
    reading.dram_active = dram;
    return reading;
  };
  Take(monitor, 0, busy(0, 1'000, 0.0, 0.0));
  Take(monitor, 1, busy(1, 9'000, 0.9, 0.4));
  Take(monitor, 4, busy(4, 4'000, 0.1, 0.2));
  const std::vector<store::GpuUsage> rows = monitor.CloseUsage(base::FromMs(4'000));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].sm_peak, 0.9);
  EXPECT_DOUBLE_EQ(rows[0].used_peak_mib, 9'000);
  EXPECT_NEAR(rows[0].dram_active, (0.4 * 1 + 0.2 * 3) / 4, 1e-9);
  Take(monitor, 5, busy(5, 4'000, 0.1, std::nullopt));
  const std::vector<store::GpuUsage> next = monitor.CloseUsage(base::FromMs(5'000));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_DOUBLE_EQ(next[0].sm_peak, 0.1);
  EXPECT_DOUBLE_EQ(next[0].used_peak_mib, 4'000);
  EXPECT_TRUE(std::isnan(next[0].dram_active));
}

TEST(Monitor, KeepsReadingsForALimitedTimeAndInLimitedNumber) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{.history = base::Duration(10'000)});
  for (int second = 0; second <= 20; ++second)
    Take(monitor, second, FullReadingAt(second, second, 0.5, 0));
  const auto at = [](std::int64_t second) { return base::FromMs(second * 1000); };
  const std::vector<HistoryPoint> all = monitor.History(core::GpuIndex{0}, at(0), at(100));
  ASSERT_EQ(all.size(), 11u);
  EXPECT_EQ(all.front().taken, at(10));
  EXPECT_EQ(all.back().used_mib, 20);
  EXPECT_EQ(monitor.History(core::GpuIndex{0}, at(12), at(14)).size(), 2u);
  EXPECT_TRUE(monitor.History(core::GpuIndex{7}, at(0), at(100)).empty());

  Monitor eager({Device("GPU-a")}, MonitorOptions{.history = std::chrono::hours(24)});
  for (int second = 0; second < 5'000; ++second)
    Take(eager, second, FullReadingAt(second, 0, 0.5, 0));
  EXPECT_EQ(eager.History(core::GpuIndex{0}, at(0), at(9'999)).size(), 4096u);
}

TEST(Monitor, RecentFullnessCoversTwoSeconds) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  Take(monitor, 0, FullReadingAt(0, 40'536, 0, 0));
  EXPECT_DOUBLE_EQ(*monitor.RecentFullness(core::GpuIndex{0}, base::FromMs(1000)), 1.0);
  EXPECT_FALSE(monitor.RecentFullness(core::GpuIndex{0}, base::FromMs(5000)));
}

TEST(Monitor, UnknownProcessMemoryMakesTheAttributionIncomplete) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  gpu::Reading reading = FullReadingAt(1, 3'000, 0, 0);
  reading.processes = {{1'000'000'007, std::nullopt, false}, {1'000'000'009, 400, true}};
  const std::vector<core::Event> events = Take(monitor, 1, reading);
  const core::GpuSample& sample = std::get<core::GpuSampled>(events[0]).sample;
  EXPECT_FALSE(sample.attributed);
  EXPECT_EQ(sample.foreign_processes, 1) << "an MPS server is not foreign";
}

// ---- health rules ----

gpu::Reading WithXids(std::int64_t second, std::vector<int> xids) {
  gpu::Reading reading = FullReadingAt(second, 1'000, 0.5, 100.0 + static_cast<double>(second));
  reading.xids = std::move(xids);
  return reading;
}

// Drains and resumes that the engine must store, as "drain 1 <why>" or "resume 0".
std::vector<std::string> Drains(const std::vector<core::Event>& events) {
  std::vector<std::string> told;
  for (const core::Event& event : events) {
    if (const auto* drain = std::get_if<core::DrainRequested>(&event)) {
      EXPECT_TRUE(drain->by_rule);
      told.push_back("drain " + std::to_string(core::Number(drain->gpu)) + " " + drain->why);
    }
    if (const auto* resume = std::get_if<core::ResumeRequested>(&event)) {
      EXPECT_TRUE(resume->by_rule);
      told.push_back("resume " + std::to_string(core::Number(resume->gpu)));
    }
  }
  return told;
}
const core::GpuIndex kGpu0{0};

TEST(MonitorHealth, AFaultClosesTheGpuOnceBeforeItsSample) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  EXPECT_EQ(Drains(Take(monitor, 1, WithXids(1, {31}))), Words{}) << "the program's own fault";
  const std::vector<core::Event> events = Take(monitor, 2, WithXids(2, {79}));
  EXPECT_EQ(Drains(events), Words{"drain 0 Xid 79: fell off the bus"});
  EXPECT_TRUE(std::holds_alternative<core::DrainRequested>(events.front()));
  EXPECT_EQ(Drains(Take(monitor, 3, WithXids(3, {}))), Words{})
      << "it stays closed and is reported once";
  EXPECT_EQ(monitor.HealthTrouble(kGpu0), "Xid 79: fell off the bus");
  EXPECT_EQ(monitor.Troubles(), Words{"GPU 0 accepts no new tasks: Xid 79: fell off the bus"});
  EXPECT_EQ(monitor.XidCounts(kGpu0), (std::map<int, std::uint64_t>{{31, 1}, {79, 1}}));
  EXPECT_EQ(monitor.RecentXids(kGpu0, base::FromMs(3'000)), (std::vector<int>{31, 79}));
  EXPECT_TRUE(monitor.RecentXids(kGpu0, base::FromMs(3'000), base::FromMs(2'999)).empty());
}

TEST(MonitorHealth, AfterAnAdministratorOpensAGpuOnlyNewEvidenceClosesIt) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  Take(monitor, 1, WithXids(1, {79}));
  monitor.Acknowledge(kGpu0);
  EXPECT_EQ(Drains(Take(monitor, 2, WithXids(2, {}))), Words{});
  EXPECT_EQ(Drains(Take(monitor, 3, WithXids(3, {48}))),
            Words{"drain 0 Xid 48: uncorrectable memory error"});
}

TEST(MonitorHealth, ADrainOfAnEarlierDaemonEndsWithItsCause) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  monitor.RestoreDrain(kGpu0, "Xid 79: fell off the bus");
  EXPECT_EQ(Drains(Take(monitor, 1, WithXids(1, {}))), Words{});
  gpu::Reading reloaded = WithXids(2, {});
  reloaded.energy_j = 0;
  EXPECT_EQ(Drains(Take(monitor, 2, reloaded)), Words{"resume 0"}) << "its counter was reset";
}

TEST(MonitorHealth, AGpuThatWasLostAndReturnsHasNoOldFaults) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{});
  Take(monitor, 1, WithXids(1, {79}));
  for (int second = 2; second <= 4; ++second) Take(monitor, second, NotFound("GPU is lost"));
  EXPECT_EQ(Drains(Take(monitor, 5, WithXids(5, {79}))), Words{"resume 0"})
      << "Xids in its first reading predate its return";
  Take(monitor, 6, Unavailable("busy"));
  EXPECT_EQ(Drains(Take(monitor, 7, WithXids(7, {79}))).size(), 1U)
      << "one error does not mean it was lost";
}

TEST(MonitorHealth, WithoutDrainAFaultIsOnlyAnAlert) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{.health = {.drain = false}});
  EXPECT_EQ(Drains(Take(monitor, 1, WithXids(1, {79}))), Words{});
  EXPECT_EQ(monitor.Alerts(kGpu0),
            Words{"Xid 79: fell off the bus (reported only, because health.drain is false)"});
  EXPECT_EQ(monitor.Troubles().size(), 1U);
}

TEST(MonitorHealth, NewRulesApplyFromTheNextReading) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{.health = {.drain = false}});
  Take(monitor, 1, WithXids(1, {79}));
  monitor.Follow({.health = {.drain = true, .ignored_xids = {48}}});
  EXPECT_EQ(Drains(Take(monitor, 2, WithXids(2, {}))), Words{"drain 0 Xid 79: fell off the bus"});
  monitor.Acknowledge(kGpu0);
  EXPECT_EQ(Drains(Take(monitor, 3, WithXids(3, {48}))), Words{});
  monitor.Follow({.health = {.drain = true}});
  EXPECT_EQ(Drains(Take(monitor, 4, WithXids(4, {48}))).size(), 1U);
}

TEST(MonitorHealth, FaultsOfADividedGpuAffectAllItsInstances) {
  std::vector<gpu::DeviceInfo> devices;
  for (const char* parent : {"GPU-a", "GPU-a", "GPU-b"}) {
    devices.push_back(Device("MIG-" + std::to_string(devices.size())));
    devices.back().mig = gpu::MigPlace{.parent_uuid = parent};
  }
  Monitor monitor(devices, MonitorOptions{});
  const std::vector<core::Event> events =
      monitor.Take(base::FromMs(1'000), {WithXids(1, {13, 79}), WithXids(1, {}), WithXids(1, {})});
  EXPECT_EQ(Drains(events), (Words{"drain 0 Xid 79: fell off the bus",  //
                                   "drain 1 Xid 79: fell off the bus"}));
  EXPECT_EQ(monitor.RecentXids(core::GpuIndex{1}, base::FromMs(1'000)), std::vector<int>{79})
      << "a program's fault affects only its own instance";
}

TEST(Monitor, ADeviceThatCouldNotBeDescribedIsClosedWithThatReason) {
  gpu::DeviceInfo unreadable;
  unreadable.uuid = "GPU-unknown-1";
  unreadable.trouble = {"it is lost", gpu::TroubleCause::kOther, "GPU-unknown-1"};
  Monitor monitor({Device("GPU-a"), unreadable}, MonitorOptions{});
  const std::vector<core::Event> events =
      monitor.Take(base::FromMs(1'000), {WithXids(1, {}), NotFound("no such GPU")});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<core::GpuSampled>(events[0])) << "the other GPU is still read";
  EXPECT_EQ(std::get<core::GpuHealthChanged>(events[1]).text, "it is lost");
  EXPECT_TRUE(monitor.Fresh(core::GpuIndex{0}));
  EXPECT_FALSE(monitor.Fresh(core::GpuIndex{1}));
  const std::vector<core::Event> later =
      monitor.Take(base::FromMs(2'000), {WithXids(2, {}), WithXids(2, {})});
  ASSERT_EQ(later.size(), 2U);
  EXPECT_FALSE(std::get<core::GpuHealthChanged>(later[1]).healthy);
  EXPECT_EQ(monitor.Troubles(),
            Words{"GPU 1: it is lost; the GPU responds now, so restart carmad to use it"});
}

TEST(Monitor, AKnownDeviceIsUsedAsSoonAsItAnswers) {
  gpu::DeviceInfo lost = Device("GPU-b");
  lost.trouble = {"it is lost"};
  Monitor monitor({Device("GPU-a"), lost}, MonitorOptions{});
  monitor.Take(base::FromMs(1'000), {WithXids(1, {}), NotFound("no such GPU")});
  EXPECT_EQ(monitor.Troubles(), Words{"GPU 1: it is lost"});
  monitor.Take(base::FromMs(2'000), {WithXids(2, {}), WithXids(2, {})});
  EXPECT_EQ(monitor.Troubles(), Words{});
}

// ---- alerts ----

TEST(MonitorAlerts, ReportsUnattributedMemoryAfterAWholeWindow) {
  Monitor monitor({Device("GPU-a")},
                  MonitorOptions{.window = base::Duration(10'000), .unattributed_mib = 2'000});
  const auto alerts = [&](std::int64_t second, std::int64_t used_mib) {
    Take(monitor, second, FullReadingAt(second, used_mib, 0, 0));
    return monitor.Alerts(kGpu0).size();
  };
  EXPECT_EQ(alerts(0, 2'001) + alerts(9, 5'000), 0U) << "a context may still be exiting";
  EXPECT_EQ(alerts(10, 5'000), 1U);
  EXPECT_EQ(monitor.Alerts(kGpu0)[0].substr(0, 4), "4.9G");
  EXPECT_EQ(monitor.Troubles().size(), 1U);
  EXPECT_EQ(alerts(11, 2'000), 0U);
  EXPECT_EQ(alerts(12, 5'000), 0U) << "the window starts again";
  EXPECT_EQ(alerts(22, 5'000), 1U);
  gpu::Reading unclear = FullReadingAt(23, 5'000, 0, 0);
  unclear.processes = {{1'000'000'007, std::nullopt, false}};
  Take(monitor, 23, unclear);
  EXPECT_TRUE(monitor.Alerts(kGpu0).empty()) << "one process's memory is not reported";
}

TEST(MonitorAlerts, AGapDoesNotCountAsTimeWithUnattributedMemory) {
  Monitor monitor({Device("GPU-a")},
                  MonitorOptions{.window = base::Duration(10'000), .unattributed_mib = 2'000});
  Take(monitor, 0, FullReadingAt(0, 5'000, 0, 0));
  monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"});
  Take(monitor, 60, FullReadingAt(60, 5'000, 0, 0));
  EXPECT_TRUE(monitor.Alerts(kGpu0).empty());
}

TEST(Monitor, TheWindowHasMeanP95AndAFasterMean) {
  Monitor monitor({Device("GPU-a")}, MonitorOptions{.ewma = base::Duration(5'000)});
  for (int second = 0; second <= 20; ++second)
    Take(monitor, second, FullReadingAt(second, 0, second > 10 ? 1.0 : 0.0, 0));
  EXPECT_NEAR(*monitor.WindowMean(kGpu0), 0.5, 1e-9);
  EXPECT_EQ(monitor.WindowP95(kGpu0), 1.0);
  EXPECT_GT(*monitor.WindowEwma(kGpu0), 0.8);
  monitor.DriverSilent({ErrorCode::kUnavailable, "hangs"});
  EXPECT_FALSE(monitor.WindowP95(kGpu0));
  EXPECT_FALSE(monitor.WindowEwma(kGpu0));
}

}  // namespace
}  // namespace carma::daemon

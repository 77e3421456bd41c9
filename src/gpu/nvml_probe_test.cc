#include "gpu/nvml_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "gpu/fake_nvml/fake_nvml_test.h"
#include "gpu/sanity.h"
#include "test_paths.h"

namespace carma::gpu {
namespace {

using NvmlProbeTest = FakeNvmlTest;

TEST_F(NvmlProbeTest, ListsDevicesInPciOrderWithTheirMemory) {
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[0],
            (DeviceInfo{"GPU-a", "Fake GPU", "00000000:07:00.0", 40'960, 424, true}));
  EXPECT_EQ((*devices)[1].uuid, "GPU-b");
}

TEST_F(NvmlProbeTest, FindsLinkedGpusDirectlyAndThroughSwitches) {
  const auto linked = [this] {
    const auto devices = probe_->Devices();
    EXPECT_TRUE(devices);
    std::vector<std::vector<std::string>> all;
    for (const DeviceInfo& each : *devices) all.push_back(each.linked_to);
    return all;
  };
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(linked(), ElementsAre(IsEmpty(), IsEmpty()));
  // One link is enough. Links that are unused or lead elsewhere do not count.
  nvml_->gpus[0].links = {"", nvml_->gpus[1].bus_id, nvml_->gpus[1].bus_id, "00000000:ff:00.0"};
  EXPECT_EQ(linked().at(0).size() + linked().at(1).size(), 1U);
  nvml_->gpus[0].links = {"switch", "switch"};
  EXPECT_THAT(linked(), ElementsAre(IsEmpty(), IsEmpty())) << "the other GPU is on no switch";
  nvml_->gpus[1].links = {"switch"};
  EXPECT_THAT(linked(), ElementsAre(ElementsAre("GPU-b"), ElementsAre("GPU-a")));
  for (const char* function : {"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemoteDeviceType"}) {
    nvml_->errors = {{function, nvml::kUnknown}};
    EXPECT_THAT(linked(), ElementsAre(IsEmpty(), IsEmpty())) << function;
  }
}

TEST_F(NvmlProbeTest, ReadsEveryValueInCarmasUnits) {
  ASSERT_TRUE(probe_->Devices());
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.sm_percent = 62.5;
  gpu.utilization = 97;
  gpu.power_mw = 214'500;
  gpu.energy_mj = 1'234'567;
  gpu.compute = {Process(11, 4'000)};
  const Reading reading = MustRead(0);
  EXPECT_EQ(reading.taken, base::FromMs(5));
  EXPECT_EQ(reading.total_mib, 40'960);
  EXPECT_EQ(reading.reserved_mib, 424);
  EXPECT_EQ(reading.used_mib, 10'000);
  EXPECT_DOUBLE_EQ(reading.sm_active.value(), 0.625);
  EXPECT_DOUBLE_EQ(reading.utilization.value(), 0.97);
  EXPECT_DOUBLE_EQ(reading.power_w.value(), 214.5);
  EXPECT_DOUBLE_EQ(reading.energy_j.value(), 1'234.567);
  EXPECT_DOUBLE_EQ(reading.temperature_c.value(), 40);
}

TEST_F(NvmlProbeTest, MergesTheListsIntoOneEntryPerPid) {
  ASSERT_TRUE(probe_->Devices());
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.compute = {Process(11, 4'000), Process(12, 100), Process(12, 50)};
  gpu.graphics = {Process(11, 4'000)};
  gpu.mps = {Process(13, 700), {14, nvml::kNoValue64, 0, 0}};
  std::map<pid_t, std::optional<std::int64_t>> seen;
  for (const ProcessUse& use : MustRead(0).processes) {
    EXPECT_TRUE(seen.emplace(use.pid, use.used_mib).second) << "pid twice: " << use.pid;
    EXPECT_FALSE(use.mps_server);
  }
  const std::map<pid_t, std::optional<std::int64_t>> expected = {
      {11, 4'000}, {12, 150}, {13, 700}, {14, std::nullopt}};
  EXPECT_EQ(seen, expected);
}

TEST_F(NvmlProbeTest, MarksProcessesThatOnlyDraw) {
  ASSERT_TRUE(probe_->Devices());
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.compute = {Process(11, 4'000)};
  gpu.graphics = {Process(11, 4'000), Process(12, 4), Process(13, 700)};
  gpu.mps = {Process(13, 700)};
  for (const ProcessUse& use : MustRead(0).processes)
    EXPECT_EQ(use.graphics, use.pid == 12) << use.pid;
}

TEST_F(NvmlProbeTest, SaysIfTheDriverDoesNotListTheProcesses) {
  ASSERT_TRUE(probe_->Devices());
  EXPECT_FALSE(MustRead(0).processes_hidden);
  nvml_->errors = {{"nvmlDeviceGetComputeRunningProcesses_v3", nvml::kNotSupported}};
  EXPECT_TRUE(MustRead(0).processes_hidden);
}

TEST_F(NvmlProbeTest, RefusesAnImpossiblePid) {
  ASSERT_TRUE(probe_->Devices());
  nvml_->gpus[1].compute = {Process(11, 4'000), {nvml::kNoValue32, 5, 0, 0}};
  EXPECT_EQ(probe_->Read(0, {}).error().code, ErrorCode::kCorrupt);
}

// The newest function has another layout in some drivers and is missing in others.
TEST(NvmlApi, ListsProcessesWithAFunctionOfTheKnownLayout) {
  const auto chosen = [](std::set<std::string> functions) {
    static char v2, v3, other;
    const NvmlApi api([&](const std::string& name) -> void* {
      if (!functions.contains(name)) return nullptr;
      return name.ends_with("_v3") ? &v3 : name.ends_with("_v2") ? &v2 : &other;
    });
    return reinterpret_cast<char*>(api.graphics) == &v3   ? 3
           : reinterpret_cast<char*>(api.graphics) == &v2 ? 2
                                                          : 0;
  };
  const std::string v2 = "nvmlDeviceGetGraphicsRunningProcesses_v2";
  const std::string v3 = "nvmlDeviceGetGraphicsRunningProcesses_v3";
  const std::string confidential = "nvmlDeviceGetConfComputeMemSizeInfo";
  const std::string detail = "nvmlDeviceGetRunningProcessDetailList";
  EXPECT_EQ(chosen({v2, v3}), 3) << "520";
  EXPECT_EQ(chosen({v2, v3, confidential}), 2) << "535.54";
  EXPECT_EQ(chosen({v2, confidential, detail}), 2) << "535.98";
  EXPECT_EQ(chosen({v2, v3, confidential, detail}), 3) << "550";
  EXPECT_EQ(chosen({}), 0);
}

TEST_F(NvmlProbeTest, RetriesIfProcessesAppearInBetween) {
  ASSERT_TRUE(probe_->Devices());
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.compute = {Process(11, 1)};
  gpu.late_processes = 40;
  EXPECT_EQ(MustRead(0).processes.size(), 41u);
}

TEST_F(NvmlProbeTest, LeavesUnsupportedValuesAbsent) {
  nvml_->gpus[1].gpm = false;
  nvml_->errors = {{"nvmlDeviceGetTotalEnergyConsumption", nvml::kNotSupported},
                   {"nvmlDeviceGetUtilizationRates", nvml::kNotSupported},
                   {"nvmlDeviceGetTemperature", nvml::kNoPermission},
                   {"nvmlDeviceGetTemperatureV", nvml::kNoPermission},
                   {"nvmlDeviceGetMPSComputeRunningProcesses_v3", nvml::kNotSupported},
                   {"nvmlDeviceGetMemoryInfo_v2", nvml::kFunctionNotFound}};
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_FALSE((*devices)[0].reports_sm_activity);
  const Reading reading = MustRead(0);
  EXPECT_FALSE(reading.sm_active || reading.utilization || reading.energy_j ||
               reading.temperature_c);
  EXPECT_TRUE(reading.power_w);
  // The first version of the call counts the driver's own memory as used.
  EXPECT_EQ(reading.used_mib, 10'424);
  EXPECT_EQ(reading.reserved_mib, 0);
}

TEST_F(NvmlProbeTest, UsesTheReplacementOfADeprecatedCall) {
  nvml_->gpus[1].temperature = 61;
  for (const nvml::Return code : {nvml::kDeprecated, nvml::kFunctionNotFound}) {
    nvml_->errors = {{"nvmlDeviceGetTemperature", code}};
    ASSERT_TRUE(probe_->Devices());
    EXPECT_EQ(MustRead(0).temperature_c, 61.0);
  }
  auto library = LoadNvml(CARMA_FAKE_NVML);
  ASSERT_TRUE(library);
  library->api.temperature = nullptr;
  const std::unique_ptr<Probe> probe = MakeNvmlProbe(std::move(*library));
  ASSERT_TRUE(probe->Devices());
  EXPECT_EQ(probe->Read(0, {})->temperature_c, 61.0);
}

TEST_F(NvmlProbeTest, ReportsImpossibleValuesAsCorrupt) {
  struct Case {
    const char* name;
    std::function<void(FakeNvmlGpu&)> lie;
  };
  const Case cases[] = {
      {"SM activity that is not a number", [](FakeNvmlGpu& g) { g.sm_percent = std::nan(""); }},
      {"SM activity of 4000 %", [](FakeNvmlGpu& g) { g.sm_percent = 4'000; }},
      {"negative SM activity", [](FakeNvmlGpu& g) { g.sm_percent = -1; }},
      {"more memory used than exists", [](FakeNvmlGpu& g) { g.memory.used = 50'000 * kMib; }},
      {"used and reserved exceed the total", [](FakeNvmlGpu& g) { g.memory.used = 40'700 * kMib; }},
      {"memory sentinel", [](FakeNvmlGpu& g) { g.memory.used = nvml::kNoValue64; }},
      {"no memory at all", [](FakeNvmlGpu& g) { g.memory = {}; }},
      {"utilization of 4 billion", [](FakeNvmlGpu& g) { g.utilization = nvml::kNoValue32; }},
      {"power sentinel", [](FakeNvmlGpu& g) { g.power_mw = nvml::kNoValue32; }},
      {"a decreasing energy counter", [](FakeNvmlGpu& g) { g.energy_mj = 1; }},
      {"a process larger than the GPU", [](FakeNvmlGpu& g) { g.compute = {Process(11, 41'000)}; }},
  };
  ASSERT_TRUE(probe_->Devices());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const FakeNvmlGpu honest = nvml_->gpus[1];
    nvml_->gpus[1].energy_mj += 1'000'000;
    MustRead(0);
    c.lie(nvml_->gpus[1]);
    const auto reading = probe_->Read(0, {});
    ASSERT_FALSE(reading);
    EXPECT_EQ(reading.error().code, ErrorCode::kCorrupt) << reading.error().message;
    EXPECT_EQ(reading.error().gpu, "GPU-a");
    nvml_->gpus[1] = honest;
    nvml_->gpus[1].energy_mj += 2'000'000;
  }
}

TEST_F(NvmlProbeTest, ErrorsKeepTheirKindAndTheDriversText) {
  struct Case {
    const char* function;
    nvml::Return code;
    ErrorCode expected;
  };
  const Case cases[] = {
      {"nvmlDeviceGetMemoryInfo_v2", nvml::kGpuIsLost, ErrorCode::kNotFound},
      {"nvmlDeviceGetMemoryInfo_v2", nvml::kUnknown, ErrorCode::kUnavailable},
      {"nvmlDeviceGetComputeRunningProcesses_v3", nvml::kGpuIsLost, ErrorCode::kNotFound},
      {"nvmlDeviceGetComputeRunningProcesses_v3", nvml::kTimeout, ErrorCode::kUnavailable},
      {"nvmlDeviceGetPowerUsage", nvml::kResetRequired, ErrorCode::kUnavailable},
      {"nvmlGpmSampleGet", nvml::kGpuIsLost, ErrorCode::kNotFound},
      {"nvmlGpmMetricsGet", nvml::kUnknown, ErrorCode::kUnavailable},
  };
  ASSERT_TRUE(probe_->Devices());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.function);
    nvml_->errors = {{c.function, c.code}};
    const auto reading = probe_->Read(0, {});
    ASSERT_FALSE(reading);
    EXPECT_EQ(reading.error().code, c.expected);
    EXPECT_THAT(reading.error().message,
                ::testing::HasSubstr(c.code == nvml::kGpuIsLost ? "GPU is lost" : "some error"));
    nvml_->errors.clear();
    MustRead(0);
  }
}

TEST_F(NvmlProbeTest, ResumesWhenTheDriverReturns) {
  ASSERT_TRUE(probe_->Devices());
  nvml_->errors = {{"nvmlInit_v2", nvml::kDriverNotLoaded}};
  nvml_->initialised = false;  // the module was unloaded meanwhile
  auto reading = probe_->Read(1, {});
  ASSERT_FALSE(reading);
  EXPECT_EQ(reading.error().code, ErrorCode::kUnavailable);
  reading = probe_->Read(1, {});
  EXPECT_EQ(reading.error().code, ErrorCode::kUnavailable);
  nvml_->errors.clear();
  EXPECT_EQ(MustRead(1).used_mib, 10'000);
}

TEST_F(NvmlProbeTest, ConvertsCountersToFractionsAndBytes) {
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  ASSERT_TRUE(probe_->Devices());
  EXPECT_EQ(Reading{}.counters, CounterSource::kNone);
  gpu.sm_percent = 50;
  gpu.gpm_metrics = {{3, 12.5},  {1, 99},   {5, 40},       {10, 30},    {11, 0},    {12, 7.5},
                     {13, 0.25}, {20, 100}, {21, 1'000.5}, {60, 2'000}, {61, 3'000}};
  const Reading reading = MustRead(0);
  EXPECT_EQ(reading.counters, CounterSource::kGpm);
  EXPECT_EQ(reading.sm_active, 0.5);
  EXPECT_EQ(reading.sm_occupancy, 0.125);
  EXPECT_EQ(reading.graphics_active, 0.99);
  EXPECT_EQ(reading.tensor_active, 0.4);
  EXPECT_EQ(reading.dram_active, 0.3);
  EXPECT_EQ(reading.fp64_active, 0.0);
  EXPECT_EQ(reading.fp32_active, 0.075);
  EXPECT_EQ(reading.fp16_active, 0.0025);
  EXPECT_EQ(reading.pcie_tx_bytes_s, 100.0 * kMib);
  EXPECT_EQ(reading.pcie_rx_bytes_s, 1'000.5 * kMib);
  EXPECT_EQ(reading.nvlink_rx_bytes_s, 2'000.0 * kMib);
  EXPECT_EQ(reading.nvlink_tx_bytes_s, 3'000.0 * kMib);
}

TEST_F(NvmlProbeTest, RequestsOnlyKnownMetrics) {
  nvml_->gpus[1].gpm_metrics = {{10, 30}};
  for (const nvml::Return code : {nvml::kInvalidArgument, nvml::kNotSupported, nvml::kUnknown}) {
    SCOPED_TRACE(code);
    nvml_->gpm_lists = code;
    ASSERT_TRUE(probe_->Devices());
    nvml_->gpus[1].sm_percent = 25;
    const Reading reading = MustRead(0);
    EXPECT_EQ(reading.sm_active, 0.25);
    EXPECT_FALSE(reading.dram_active);
    const int calls = nvml_->calls["nvmlGpmMetricsGet"];
    EXPECT_EQ(MustRead(0).sm_active, 0.25);
    EXPECT_EQ(nvml_->calls["nvmlGpmMetricsGet"], calls + 1) << "the full list is not tried again";
  }
}

TEST_F(NvmlProbeTest, ReadsTheConditionPeriodically) {
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.ecc_corrected = 5;
  gpu.ecc_uncorrected = 1;
  gpu.remapped_corrected = 2;
  gpu.remapped_uncorrected = 1;
  gpu.remap_pending = 1;
  gpu.compute_mode = 3;
  gpu.recovery_action = 4;
  ASSERT_TRUE(probe_->Devices());
  const Reading reading = MustRead(0);
  EXPECT_EQ(reading.sm_clock_mhz, 1'410.0);
  EXPECT_EQ(reading.memory_clock_mhz, 1'593.0);
  const Condition expected = {.ecc_corrected = 5,
                              .ecc_uncorrected = 1,
                              .rows_remapped = 3,
                              .remap_pending = true,
                              .remap_failed = false,
                              .compute_mode = ComputeMode::kExclusiveProcess,
                              .mig = false,
                              .recovery = RecoveryAction::kDrainAndReset};
  EXPECT_EQ(reading.condition, expected);
  gpu.recovery_action = 17;
  EXPECT_EQ(MustRead(0).condition, expected) << "repeated until the next query";
  EXPECT_EQ(nvml_->calls["nvmlDeviceGetFieldValues"], 1);
  const auto later = probe_->Read(0, base::FromMs(5) + kConditionSpan);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->condition.recovery, RecoveryAction::kOther);
}

TEST_F(NvmlProbeTest, InformativeValuesAreAbsentAfterAnyError) {
  struct Case {
    const char* function;
    std::function<bool(const Reading&)> absent;
  };
  const Case cases[] = {
      {"nvmlDeviceGetClockInfo",
       [](const Reading& r) { return !r.sm_clock_mhz && !r.memory_clock_mhz; }},
      {"nvmlDeviceGetTotalEccErrors",
       [](const Reading& r) { return !r.condition.ecc_corrected && !r.condition.ecc_uncorrected; }},
      {"nvmlDeviceGetRemappedRows",
       [](const Reading& r) { return !r.condition.rows_remapped && !r.condition.remap_failed; }},
      {"nvmlDeviceGetComputeMode", [](const Reading& r) { return !r.condition.compute_mode; }},
      {"nvmlDeviceGetMigMode", [](const Reading& r) { return !r.condition.mig; }},
      {"nvmlDeviceGetFieldValues", [](const Reading& r) { return !r.condition.recovery; }},
      {"nvmlEventSetWait_v2", [](const Reading& r) { return r.xids.empty(); }},
      {"nvmlEventSetCreate", [](const Reading& r) { return r.xids.empty(); }},
      {"nvmlDeviceRegisterEvents", [](const Reading& r) { return r.xids.empty(); }},
  };
  const nvml::Return codes[] = {nvml::kInvalidArgument,
                                nvml::kNotSupported,
                                nvml::kNoPermission,
                                nvml::kNotFound,
                                nvml::kInsufficientSize,
                                nvml::kTimeout,
                                nvml::kFunctionNotFound,
                                nvml::kResetRequired,
                                nvml::kLibRmVersionMismatch,
                                nvml::kMemory,
                                nvml::kNoData,
                                nvml::kInsufficientResources,
                                nvml::kArgumentVersionMismatch,
                                nvml::kUnknown,
                                4'711};
  for (const Case& c : cases) {
    for (const nvml::Return code : codes) {
      SCOPED_TRACE(std::string(c.function) + " " + std::to_string(code));
      nvml_->errors = {{c.function, code}};
      ASSERT_TRUE(probe_->Devices());  // makes the probe read the condition again
      EXPECT_TRUE(c.absent(MustRead(0)));
    }
    const bool of_a_gpu = std::string(c.function).starts_with("nvmlDeviceGet");
    if (!of_a_gpu) continue;
    nvml_->errors.clear();
    ASSERT_TRUE(probe_->Devices());
    nvml_->errors = {{c.function, nvml::kGpuIsLost}};
    const auto lost = probe_->Read(0, {});
    ASSERT_FALSE(lost) << c.function;
    EXPECT_EQ(lost.error().code, ErrorCode::kNotFound);
  }
  nvml_->errors.clear();
}

TEST_F(NvmlProbeTest, DecisiveValuesFailUnlessUnsupported) {
  const char* functions[] = {"nvmlDeviceGetMemoryInfo_v2",
                             "nvmlDeviceGetComputeRunningProcesses_v3",
                             "nvmlDeviceGetGraphicsRunningProcesses_v3",
                             "nvmlDeviceGetMPSComputeRunningProcesses_v3",
                             "nvmlGpmSampleGet",
                             "nvmlGpmMetricsGet",
                             "nvmlDeviceGetUtilizationRates",
                             "nvmlDeviceGetPowerUsage",
                             "nvmlDeviceGetTotalEnergyConsumption",
                             "nvmlDeviceGetTemperature"};
  struct Case {
    nvml::Return code;
    std::optional<ErrorCode> expected;  // empty: the reading succeeds without the value
  };
  const Case cases[] = {{nvml::kNotSupported, {}},
                        {nvml::kNoPermission, {}},
                        {nvml::kFunctionNotFound, {}},
                        {nvml::kNoData, {}},
                        {nvml::kArgumentVersionMismatch, {}},
                        {nvml::kDeprecated, {}},
                        {nvml::kTimeout, ErrorCode::kUnavailable},
                        {nvml::kResetRequired, ErrorCode::kUnavailable},
                        {nvml::kMemory, ErrorCode::kUnavailable},
                        {nvml::kUnknown, ErrorCode::kUnavailable},
                        {4'711, ErrorCode::kUnavailable},
                        {nvml::kGpuIsLost, ErrorCode::kNotFound}};
  ASSERT_TRUE(probe_->Devices());
  for (const char* function : functions) {
    for (const Case& c : cases) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(c.code));
      MustRead(0);
      nvml_->errors = {{function, c.code}};
      const auto reading = probe_->Read(0, {});
      nvml_->errors.clear();
      ASSERT_EQ(reading.has_value(), !c.expected.has_value());
      if (reading) continue;
      EXPECT_EQ(reading.error().code, *c.expected);
    }
  }
}

TEST_F(NvmlProbeTest, InvalidInformativeValuesAreAbsent) {
  ASSERT_TRUE(probe_->Devices());
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.gpm_metrics = {{3, std::nan("")}, {10, 4'000}, {20, -1}, {5, 100.4}};
  gpu.sm_clock = gpu.memory_clock = nvml::kNoValue32;
  gpu.ecc_corrected = nvml::kNoValue64;
  gpu.compute_mode = 99;
  gpu.mig_mode = nvml::kNoValue32;
  gpu.remapped_corrected = nvml::kNoValue32;
  gpu.recovery_type = 0;  // a floating-point number where a count is expected
  const Reading reading = MustRead(0);
  EXPECT_FALSE(reading.sm_occupancy || reading.dram_active || reading.pcie_tx_bytes_s);
  EXPECT_EQ(reading.tensor_active, 1.0) << "a hair above 100 % is 100 %";
  EXPECT_FALSE(reading.sm_clock_mhz || reading.memory_clock_mhz);
  EXPECT_EQ(reading.condition, (Condition{.ecc_uncorrected = 0}));
}

TEST_F(NvmlProbeTest, ReportsEachXidOnceForItsGpu) {
  ASSERT_TRUE(probe_->Devices());
  nvml_->events = {{1, nvml::kEventXidCritical, 79},
                   {0, nvml::kEventXidCritical, 48},
                   {1, 0x4, 5},  // another kind of event
                   {1, nvml::kEventXidCritical, 31},
                   {9, nvml::kEventXidCritical, 13}};  // an unknown GPU
  EXPECT_EQ(MustRead(0).xids, (std::vector<int>{79, 31}));
  EXPECT_EQ(MustRead(1).xids, (std::vector<int>{48}));
  EXPECT_TRUE(MustRead(0).xids.empty());
  for (int i = 0; i < 1'000; ++i) nvml_->events.push_back({1, nvml::kEventXidCritical, 13});
  EXPECT_EQ(MustRead(0).xids.size(), 64u) << "a flood of events does not delay the reading";
  EXPECT_EQ(nvml_->events.size(), 936u);
}

TEST_F(NvmlProbeTest, ReportsXidsOfTheOthersAfterAGpuIsLost) {
  ASSERT_TRUE(probe_->Devices());
  nvml_->lost_in_set = true;
  nvml_->events = {{1, nvml::kEventXidCritical, 48}};
  EXPECT_TRUE(MustRead(0).xids.empty());
  EXPECT_EQ(MustRead(0).xids, (std::vector<int>{48}));
  EXPECT_EQ(nvml_->event_sets, 1);
}

TEST_F(NvmlProbeTest, DoesNotMistakeStuckCountersForAnIdleGpu) {
  ASSERT_TRUE(probe_->Devices());
  nvml_->gpus[1].utilization = 100;
  nvml_->gpus[1].sm_percent = 0;
  base::Time now = base::FromMs(1'000);
  for (; now < base::FromMs(1'000) + kStuckSpan; now += std::chrono::seconds(1))
    ASSERT_TRUE(probe_->Read(0, now));
  const auto stuck = probe_->Read(0, now);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(stuck.error().message, ::testing::HasSubstr("stuck"));
  nvml_->gpus[1].sm_percent = 1;
  EXPECT_TRUE(probe_->Read(0, now + std::chrono::seconds(1)));
}

TEST_F(NvmlProbeTest, ReportsVersions) {
  const auto versions = AskDriverVersions(CARMA_FAKE_NVML);
  ASSERT_TRUE(versions) << versions.error().message;
  EXPECT_EQ(versions->driver, "550.54.15");
  EXPECT_EQ(versions->nvml, "12.550.54.15");
  EXPECT_EQ(versions->cuda, "12.4");
  nvml_->errors = {{"nvmlInit_v2", nvml::kDriverNotLoaded}};
  EXPECT_EQ(AskDriverVersions(CARMA_FAKE_NVML).error().nvml_code, nvml::kDriverNotLoaded);
}

TEST_F(NvmlProbeTest, IsUnavailableWithoutADriver) {
  nvml_->errors = {{"nvmlInit_v2", nvml::kDriverNotLoaded}};
  const auto devices = probe_->Devices();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, ErrorCode::kUnavailable);
}

TEST(NvmlProbeLoad, NamesAMissingOrForeignLibrary) {
  const auto none = LoadNvmlProbe("/nonexistent/libnvidia-ml.so.1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(none.error().message, ::testing::HasSubstr("/nonexistent/libnvidia-ml.so.1"));
  const auto other = LoadNvmlProbe("libc.so.6");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("nvmlInit_v2"));
}

}  // namespace
}  // namespace carma::gpu

#include "gpu/nvml_probe.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "gpu/fake_nvml/fake_nvml.h"

namespace carma::gpu {
namespace {

using base::ErrorCode;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

class NvmlProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The probe's own dlopen of the same file gives the same library, so the script reaches it.
    handle_ = ::dlopen(CARMA_FAKE_NVML, RTLD_NOW);
    ASSERT_NE(handle_, nullptr) << ::dlerror();
    nvml_ = static_cast<FakeNvml*>(::dlsym(handle_, kFakeNvmlSymbol));
    ASSERT_NE(nvml_, nullptr);
    *nvml_ = {};
    nvml_->gpus = {Gpu("GPU-b", "00000000:47:00.0"), Gpu("GPU-a", "00000000:07:00.0")};
    auto probe = LoadNvmlProbe(CARMA_FAKE_NVML);
    ASSERT_TRUE(probe) << probe.error().message;
    probe_ = std::move(*probe);
  }
  void TearDown() override {
    probe_.reset();
    EXPECT_EQ(nvml_->samples, 0) << "GPM samples leaked";
    *nvml_ = {};
    ::dlclose(handle_);
  }
  static FakeNvmlGpu Gpu(const char* uuid, const char* bus) {
    FakeNvmlGpu gpu;
    gpu.uuid = uuid;
    gpu.bus_id = bus;
    gpu.memory = {.version = 0,
                  .total = 40'960 * kMib,
                  .reserved = 424 * kMib,
                  .free = 30'536 * kMib,
                  .used = 10'000 * kMib};
    return gpu;
  }
  static nvml::ProcessInfo Process(std::uint32_t pid, std::uint64_t mib) {
    return {pid, mib * kMib, nvml::kNoValue32, nvml::kNoValue32};
  }
  Reading MustRead(std::size_t device) {
    base::Result<Reading> reading = probe_->Read(device, base::FromMs(5));
    EXPECT_TRUE(reading) << reading.error().message;
    return reading.value_or(Reading{});
  }

  void* handle_ = nullptr;
  FakeNvml* nvml_ = nullptr;
  std::unique_ptr<Probe> probe_;
};

TEST_F(NvmlProbeTest, ListsDevicesInPciOrderWithTheirMemory) {
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[0],
            (DeviceInfo{"GPU-a", "Fake GPU", "00000000:07:00.0", 40'960, 424, true}));
  EXPECT_EQ((*devices)[1].uuid, "GPU-b");
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

TEST_F(NvmlProbeTest, OneLinePerPidWhateverTheListsSay) {
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

TEST_F(NvmlProbeTest, AsksAgainWhenProcessesAppearInBetween) {
  ASSERT_TRUE(probe_->Devices());
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.compute = {Process(11, 1)};
  gpu.late_processes = 40;
  EXPECT_EQ(MustRead(0).processes.size(), 41u);
}

TEST_F(NvmlProbeTest, WhatTheDriverLacksIsAbsent) {
  nvml_->gpus[1].gpm = false;
  nvml_->errors = {{"nvmlDeviceGetTotalEnergyConsumption", nvml::kNotSupported},
                   {"nvmlDeviceGetUtilizationRates", nvml::kNotSupported},
                   {"nvmlDeviceGetTemperature", nvml::kNoPermission},
                   {"nvmlDeviceGetMPSComputeRunningProcesses_v3", nvml::kNotSupported},
                   {"nvmlDeviceGetMemoryInfo_v2", nvml::kFunctionNotFound}};
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_FALSE((*devices)[0].reports_sm_activity);
  const Reading reading = MustRead(0);
  EXPECT_FALSE(reading.sm_active || reading.utilization || reading.energy_j ||
               reading.temperature_c);
  EXPECT_TRUE(reading.power_w);
  // The first version of the call counts the driver's own share as used.
  EXPECT_EQ(reading.used_mib, 10'424);
  EXPECT_EQ(reading.reserved_mib, 0);
}

TEST_F(NvmlProbeTest, ValuesThatCannotBeTrueAreCorrupt) {
  struct Case {
    const char* name;
    std::function<void(FakeNvmlGpu&)> lie;
  };
  const Case cases[] = {
      {"SM activity that is no number", [](FakeNvmlGpu& g) { g.sm_percent = std::nan(""); }},
      {"SM activity of 4000 %", [](FakeNvmlGpu& g) { g.sm_percent = 4'000; }},
      {"negative SM activity", [](FakeNvmlGpu& g) { g.sm_percent = -1; }},
      {"more used than there is", [](FakeNvmlGpu& g) { g.memory.used = 50'000 * kMib; }},
      {"used and reserved exceed the total", [](FakeNvmlGpu& g) { g.memory.used = 40'700 * kMib; }},
      {"memory sentinel", [](FakeNvmlGpu& g) { g.memory.used = nvml::kNoValue64; }},
      {"no memory at all", [](FakeNvmlGpu& g) { g.memory = {}; }},
      {"utilization of 4 billion", [](FakeNvmlGpu& g) { g.utilization = nvml::kNoValue32; }},
      {"power sentinel", [](FakeNvmlGpu& g) { g.power_mw = nvml::kNoValue32; }},
      {"energy that goes back", [](FakeNvmlGpu& g) { g.energy_mj = 1; }},
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
    EXPECT_THAT(reading.error().message, ::testing::HasSubstr("GPU-a"));
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

TEST_F(NvmlProbeTest, ADriverThatComesBackIsUsedAgain) {
  ASSERT_TRUE(probe_->Devices());
  nvml_->errors = {{"nvmlInit_v2", nvml::kDriverNotLoaded}};
  nvml_->initialised = false;  // the module was unloaded under us
  auto reading = probe_->Read(1, {});
  ASSERT_FALSE(reading);
  EXPECT_EQ(reading.error().code, ErrorCode::kUnavailable);
  reading = probe_->Read(1, {});
  EXPECT_EQ(reading.error().code, ErrorCode::kUnavailable);
  nvml_->errors.clear();
  EXPECT_EQ(MustRead(1).used_mib, 10'000);
}

TEST_F(NvmlProbeTest, NoDriverMeansUnavailable) {
  nvml_->errors = {{"nvmlInit_v2", nvml::kDriverNotLoaded}};
  const auto devices = probe_->Devices();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, ErrorCode::kUnavailable);
}

TEST(NvmlProbeLoad, ALibraryThatIsNotThereOrNoNvmlIsNamed) {
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

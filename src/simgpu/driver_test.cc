// The whole way: state file -> libcarma-simgpu.so -> dlopen -> NVML calls -> probe.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "gpu/nvml_abi.h"
#include "gpu/nvml_probe.h"
#include "simgpu/state.h"
#include "simgpu/test_server.h"

namespace carma::simgpu {
namespace {

using base::ErrorCode;
namespace nvml = gpu::nvml;

class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv(kStateVariable, server_.path().c_str(), 1);
    auto server = Server::Attach(server_.path());
    ASSERT_TRUE(server) << server.error().message;
    shared_ = std::move(*server);
    auto probe = gpu::LoadNvmlProbe(CARMA_SIMGPU_DRIVER);
    ASSERT_TRUE(probe) << probe.error().message;
    probe_ = std::move(*probe);
  }
  void TearDown() override { ::unsetenv(kStateVariable); }

  std::unique_ptr<Residency> Join(int gpu, std::int64_t memory_mib, sim::Sharing sharing) {
    std::optional<Shortage> shortage;
    auto joined = shared_->Join(
        {.pid = ::getpid(), .sharing = sharing, .work_s = 1e9, .shares = {{gpu, memory_mib, 0.6}}},
        shortage);
    EXPECT_TRUE(joined && *joined);
    return std::move(*joined);
  }
  gpu::Reading MustRead(std::size_t gpu) {
    const auto reading = probe_->Read(gpu, {});
    EXPECT_TRUE(reading) << reading.error().message;
    return reading.value_or(gpu::Reading{});
  }

  // Fast, so that a look after the other always sees time pass.
  TestServer server_{"2xA100-40GB,1xH100-80GB", {.time_scale = 1000}};
  std::unique_ptr<Server> shared_;
  std::unique_ptr<gpu::Probe> probe_;
};

TEST_F(DriverTest, TheProbeSeesTheServer) {
  const auto devices = probe_->Devices();
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0].name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ((*devices)[0].uuid, shared_->places()[0].uuid);
  EXPECT_EQ((*devices)[0].total_mib, 40'960);
  EXPECT_EQ((*devices)[0].reserved_mib, 424);
  EXPECT_EQ((*devices)[2].name, "NVIDIA H100 80GB HBM3");
  EXPECT_TRUE((*devices)[0].reports_sm_activity);
}

TEST_F(DriverTest, AWorkingTaskIsMeasured) {
  ASSERT_TRUE(probe_->Devices());
  const auto task = Join(1, 12'345, sim::Sharing::kMps);
  const auto holder = Join(1, 1'000, sim::Sharing::kMps);
  ASSERT_TRUE(holder->Stop());
  MustRead(1);  // from here on the load is constant
  const gpu::Reading reading = MustRead(1);
  EXPECT_EQ(reading.used_mib, 13'345);
  const double smact = 1 - std::pow(0.4, 0.95);
  EXPECT_NEAR(reading.sm_active.value(), smact, 1e-6);
  EXPECT_EQ(reading.utilization, 1.0);
  EXPECT_NEAR(reading.power_w.value(), 53.8 + 286.2 * (1 - std::exp(-1.491 * smact)), 0.01);
  EXPECT_GT(reading.energy_j.value(), 0);
  ASSERT_EQ(reading.processes.size(), 1u);  // both residents are this process
  EXPECT_EQ(reading.processes[0].pid, ::getpid());
  EXPECT_EQ(reading.processes[0].used_mib, 13'345);
  const gpu::Reading idle = MustRead(0);
  EXPECT_EQ(idle.used_mib, 0);
  EXPECT_EQ(idle.utilization, 0.0);
  EXPECT_TRUE(idle.processes.empty());
}

TEST_F(DriverTest, AGpuIsInGoodConditionUnlessAFaultHidesIt) {
  ASSERT_TRUE(probe_->Devices());
  const gpu::Condition good = {.ecc_corrected = 0,
                               .ecc_uncorrected = 0,
                               .rows_remapped = 0,
                               .remap_pending = false,
                               .remap_failed = false,
                               .compute_mode = gpu::ComputeMode::kDefault,
                               .mig = false,
                               .recovery = gpu::RecoveryAction::kNone};
  EXPECT_EQ(MustRead(0).condition, good);
  EXPECT_EQ(MustRead(0).counters, gpu::CounterSource::kGpm);
  for (const char* function :
       {"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetMigMode", "nvmlDeviceGetFieldValues"}) {
    SCOPED_TRACE(function);
    ASSERT_TRUE(shared_->SetFault({FaultKind::kError, 1, nvml::kUnknown, function}));
    ASSERT_TRUE(probe_->Devices());  // the condition is asked for anew
    EXPECT_NE(MustRead(1).condition, good);
    ASSERT_TRUE(shared_->ClearFaults());
  }
  const auto versions = gpu::AskDriverVersions(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(versions) << versions.error().message;
  EXPECT_EQ(versions->driver, "999.0-carma-simulated");
  EXPECT_EQ(versions->cuda, "");
}

TEST_F(DriverTest, EveryFaultReachesTheProbeAsItsKindOfError) {
  struct Case {
    const char* name;
    Fault fault;
    ErrorCode expected;
    const char* text;
  };
  const Case cases[] = {
      {"lost", {FaultKind::kLost, 0, 0, ""}, ErrorCode::kNotFound, "GPU is lost"},
      {"error", {FaultKind::kError, 0, nvml::kTimeout, ""}, ErrorCode::kUnavailable, "timed out"},
      {"error of one call",
       {FaultKind::kError, 0, nvml::kResetRequired, "nvmlDeviceGetPowerUsage"},
       ErrorCode::kUnavailable,
       "power"},
      {"error of the driver",
       {FaultKind::kError, kWholeDriver, nvml::kUnknown, "nvmlGpmMetricsGet"},
       ErrorCode::kUnavailable,
       "SM activity"},
      {"NaN", {FaultKind::kNanActivity, 0, 0, ""}, ErrorCode::kCorrupt, "SM activity"},
      {"too much", {FaultKind::kUsedOverTotal, 0, 0, ""}, ErrorCode::kCorrupt, "more memory"},
      {"sentinel", {FaultKind::kNoMemoryValue, 0, 0, ""}, ErrorCode::kCorrupt, "not told"},
      {"vanish", {FaultKind::kVanish, kWholeDriver, 0, ""}, ErrorCode::kUnavailable, "not loaded"},
  };
  ASSERT_TRUE(probe_->Devices());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ASSERT_TRUE(shared_->SetFault(c.fault));
    const auto reading = probe_->Read(0, {});
    ASSERT_FALSE(reading);
    EXPECT_EQ(reading.error().code, c.expected) << reading.error().message;
    EXPECT_THAT(reading.error().message, ::testing::HasSubstr(c.text));
    if (c.fault.gpu == 0) {
      MustRead(1);  // the others serve on
    }
    ASSERT_TRUE(shared_->ClearFaults());
    MustRead(0);
  }
}

TEST_F(DriverTest, AStaleGpuRepeatsItself) {
  ASSERT_TRUE(probe_->Devices());
  auto task = Join(0, 5'000, sim::Sharing::kStreams);
  ASSERT_TRUE(shared_->SetFault({FaultKind::kStale, kWholeDriver, 0, ""}));
  const gpu::Reading before = MustRead(0);
  task.reset();
  const gpu::Reading after = MustRead(0);
  EXPECT_EQ(after.used_mib, 5'000);
  EXPECT_EQ(after.energy_j, before.energy_j);
  EXPECT_EQ(after.power_w, before.power_w);
}

TEST_F(DriverTest, AHangingGpuBlocksUntilItIsCleared) {
  ASSERT_TRUE(probe_->Devices());
  ASSERT_TRUE(shared_->SetFault({FaultKind::kHang, 0, 0, ""}));
  MustRead(1);
  std::atomic<bool> started = false, done = false;
  std::thread worker([&] {
    started = true;
    MustRead(0);
    done = true;
  });
  while (!started) std::this_thread::yield();
  EXPECT_FALSE(done);
  ASSERT_TRUE(shared_->ClearFaults());
  worker.join();
  EXPECT_TRUE(done);
}

TEST_F(DriverTest, NoStateOrABrokenOneMeansNoDriver) {
  for (const std::string& path : {std::string(), server_.path() + ".none", server_.folder()}) {
    SCOPED_TRACE(path);
    ::setenv(kStateVariable, path.c_str(), 1);
    const auto devices = probe_->Devices();
    ASSERT_FALSE(devices);
    EXPECT_EQ(devices.error().code, ErrorCode::kUnavailable);
  }
  ::setenv(kStateVariable, server_.path().c_str(), 1);
  ASSERT_TRUE(probe_->Devices());
  ASSERT_EQ(::truncate(server_.path().c_str(), 4'000), 0);
  LetFileCheckExpire();
  EXPECT_EQ(probe_->Read(0, {}).error().code, ErrorCode::kUnavailable);
}

TEST_F(DriverTest, AServerThatWasReplacedIsFoundAgain) {
  ASSERT_TRUE(probe_->Devices());
  ASSERT_TRUE(CreateServer(server_.path(), "2xA100-40GB,1xH100-80GB", {}));
  LetFileCheckExpire();
  EXPECT_EQ(probe_->Read(0, {}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(MustRead(0).used_mib, 0);
}

TEST_F(DriverTest, CallsOutOfOrderOrWithNonsenseGetNvmlErrors) {
  void* library = ::dlopen(CARMA_SIMGPU_DRIVER, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto find = [&]<class Fn>(const char* name, Fn*) {
    return reinterpret_cast<Fn*>(::dlsym(library, name));
  };
  auto* init = find("nvmlInit_v2", static_cast<nvml::InitFn*>(nullptr));
  auto* shutdown = find("nvmlShutdown", static_cast<nvml::InitFn*>(nullptr));
  auto* power = find("nvmlDeviceGetPowerUsage", static_cast<nvml::GetPowerFn*>(nullptr));
  auto* by_index = find("nvmlDeviceGetHandleByIndex_v2", static_cast<nvml::GetByIndexFn*>(nullptr));
  auto* by_uuid = find("nvmlDeviceGetHandleByUUID", static_cast<nvml::GetByTextFn*>(nullptr));
  auto* memory = find("nvmlDeviceGetMemoryInfo_v2", static_cast<nvml::GetMemoryV2Fn*>(nullptr));
  auto* uuid = find("nvmlDeviceGetUUID", static_cast<nvml::GetTextFn*>(nullptr));
  std::uint32_t value = 0;
  nvml::Device device = nullptr;
  EXPECT_EQ(power(nullptr, &value), nvml::kUninitialized);
  ASSERT_EQ(init(), nvml::kSuccess);
  EXPECT_EQ(power(nullptr, &value), nvml::kInvalidArgument);
  EXPECT_EQ(power(reinterpret_cast<nvml::Device>(&value), &value), nvml::kInvalidArgument);
  EXPECT_EQ(by_index(3, &device), nvml::kInvalidArgument);
  EXPECT_EQ(by_uuid("GPU-none", &device), nvml::kNotFound);
  ASSERT_EQ(by_index(2, &device), nvml::kSuccess);
  EXPECT_EQ(power(device, nullptr), nvml::kInvalidArgument);
  nvml::MemoryV2 unversioned{};
  EXPECT_EQ(memory(device, &unversioned), nvml::kArgumentVersionMismatch);
  char small[8];
  EXPECT_EQ(uuid(device, small, sizeof small), nvml::kInsufficientSize);
  EXPECT_EQ(shutdown(), nvml::kSuccess);
  EXPECT_EQ(shutdown(), nvml::kUninitialized);
  // Nothing but NVML's names may leak into a program that loads the driver.
  EXPECT_EQ(::dlsym(library, "_ZN5carma6simgpu6Server6AttachERKSs"), nullptr);
  ::dlclose(library);
}

}  // namespace
}  // namespace carma::simgpu

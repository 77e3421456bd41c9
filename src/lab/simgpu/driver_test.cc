// Tests the complete path: state file -> libcarma-simgpu.so -> dlopen -> NVML calls -> probe.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "gpu/memory_limits.h"
#include "gpu/nvml_abi.h"
#include "gpu/nvml_library.h"
#include "gpu/nvml_probe.h"
#include "lab/simgpu/server_fixture.h"
#include "lab/simgpu/state.h"
#include "test_paths.h"

namespace carma::simgpu {
namespace {

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

  std::unique_ptr<Residency> Join(int gpu, std::int64_t memory_mib, core::SharingMethod sharing) {
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

  // The clock runs so fast that simulated time passes between any two readings.
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
  const auto task = Join(1, 12'345, core::SharingMethod::kMps);
  const auto holder = Join(1, 1'000, core::SharingMethod::kMps);
  ASSERT_TRUE(holder->Stop());
  MustRead(1);  // the load is constant from now on
  const gpu::Reading reading = MustRead(1);
  EXPECT_EQ(reading.used_mib, 13'345);
  const double smact = 0.6;
  EXPECT_NEAR(reading.sm_active.value(), smact, 1e-6);
  EXPECT_EQ(reading.utilization, 1.0);
  EXPECT_NEAR(reading.power_w.value(), 53.8 + 286.2 * (1 - std::exp(-1.491 * smact)), 0.01);
  EXPECT_GT(reading.energy_j.value(), 0);
  ASSERT_EQ(reading.processes.size(), 1u);  // both residents belong to this process
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
    ASSERT_TRUE(probe_->Devices());  // the condition is read again
    EXPECT_NE(MustRead(1).condition, good);
    ASSERT_TRUE(shared_->ClearFaults());
  }
  const auto versions = gpu::AskDriverVersions(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(versions) << versions.error().message;
  EXPECT_EQ(versions->driver, "999.0-carma-simulated");
  EXPECT_EQ(versions->cuda, "");
}

TEST(DriverLimits, AreSetForFoldersAndReadBack) {
  const TestServer file{"1xA100-40GB,A100-40GB:mig=1g.5gb", {.memory_limits = true}};
  ::setenv(kStateVariable, file.path().c_str(), 1);
  const auto server = Server::Attach(file.path());
  const auto library = gpu::LoadNvml(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(server && library);
  const std::string group = file.folder();
  const auto set = [&](int place, const std::string& path) {
    const gpu::MemoryLimit limit{(*server)->places()[static_cast<std::size_t>(place)].uuid, 2'000,
                                 3'000};
    return gpu::SetMemoryLimits(library->api, path, std::span(&limit, 1));
  };
  ASSERT_TRUE(set(0, group));
  std::optional<Shortage> shortage;
  const auto task =
      (*server)->Join({.pid = ::getpid(), .shares = {{0, 1'234, 0}}, .group = group}, shortage);
  const gpu::NvmlSession session(library->api);
  nvml::Device device = nullptr;
  ASSERT_EQ(library->api.by_uuid((*server)->places()[0].uuid.c_str(), &device), nvml::kSuccess);
  EXPECT_EQ(gpu::ReadGroupMemory(library->api, device, group),
            (gpu::GroupMemory{2'000, 3'000, 1'234}));
  EXPECT_EQ(set(0, group + "/none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(set(1, group).error().code, ErrorCode::kUnavailable) << "divided";
  EXPECT_EQ(set(2, group).error().code, ErrorCode::kUnavailable) << "an instance";
  ::unsetenv(kStateVariable);
}

TEST_F(DriverTest, TheProbeReportsEveryFaultAsItsKindOfError) {
  struct Case {
    const char* name;
    Fault fault;
    ErrorCode expected;
    const char* text;
  };
  const Case cases[] = {
      {"lost", {FaultKind::kLost, 0, 0, ""}, ErrorCode::kNotFound, "GPU is lost"},
      {"error", {FaultKind::kError, 0, nvml::kTimeout, ""}, ErrorCode::kUnavailable, "timed out"},
      {"error from one call",
       {FaultKind::kError, 0, nvml::kResetRequired, "nvmlDeviceGetPowerUsage"},
       ErrorCode::kUnavailable,
       "power"},
      {"error from the driver",
       {FaultKind::kError, kWholeDriver, nvml::kUnknown, "nvmlGpmMetricsGet"},
       ErrorCode::kUnavailable,
       "SM activity"},
      {"NaN", {FaultKind::kNanActivity, 0, 0, ""}, ErrorCode::kCorrupt, "SM activity"},
      {"too much", {FaultKind::kUsedOverTotal, 0, 0, ""}, ErrorCode::kCorrupt, "more memory"},
      {"sentinel", {FaultKind::kNoMemoryValue, 0, 0, ""}, ErrorCode::kCorrupt, "not reported"},
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
      MustRead(1);  // the other GPUs still work
    }
    ASSERT_TRUE(shared_->ClearFaults());
    MustRead(0);
  }
}

TEST_F(DriverTest, AStaleGpuRepeatsItself) {
  ASSERT_TRUE(probe_->Devices());
  auto task = Join(0, 5'000, core::SharingMethod::kStreams);
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

TEST_F(DriverTest, AMissingOrBrokenStateFileMeansNoDriver) {
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

TEST_F(DriverTest, FindsAReplacedServerAgain) {
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
  // A program that loads the driver must not see symbols other than NVML's.
  EXPECT_EQ(::dlsym(library, "_ZN5carma6simgpu6Server6AttachERKSs"), nullptr);
  ::dlclose(library);
}

TEST_F(DriverTest, XidsDamageAndResetReachTheProbe) {
  ASSERT_TRUE(shared_->AnnounceXid(0, 13));  // before any client listened
  ASSERT_TRUE(probe_->Devices());
  EXPECT_THAT(MustRead(0).xids, ::testing::IsEmpty());
  ASSERT_TRUE(shared_->AnnounceXid(1, 79));
  ASSERT_TRUE(shared_->AnnounceXid(0, 31));
  ASSERT_TRUE(shared_->AnnounceXid(1, 48));
  EXPECT_EQ(MustRead(0).xids, std::vector<int>{31});
  EXPECT_EQ(MustRead(1).xids, (std::vector<int>{79, 48}));
  EXPECT_THAT(MustRead(1).xids, ::testing::IsEmpty());
  EXPECT_EQ(shared_->AnnounceXid(3, 79).error().code, ErrorCode::kInvalid);
  ASSERT_TRUE(shared_->SetCondition(1, {.ecc_corrected = 7,
                                        .ecc_uncorrected = 2,
                                        .rows_remapped = 1,
                                        .remap_pending = 1,
                                        .recovery_action = 4}));
  ASSERT_TRUE(shared_->SetFault({FaultKind::kNanActivity, 1, 0, ""}));
  {
    const auto task = Join(1, 100, core::SharingMethod::kStreams);
    EXPECT_EQ(shared_->ResetGpu(1).error().code, ErrorCode::kConflict);
  }
  ASSERT_TRUE(shared_->ClearFaults());
  ASSERT_TRUE(probe_->Devices());  // the condition is read again
  const gpu::Condition broken = MustRead(1).condition;
  EXPECT_EQ(broken.ecc_corrected, 7);
  EXPECT_EQ(broken.ecc_uncorrected, 2);
  EXPECT_EQ(broken.rows_remapped, 1);
  EXPECT_EQ(broken.remap_pending, true);
  EXPECT_EQ(broken.recovery, gpu::RecoveryAction::kDrainAndReset);
  ASSERT_TRUE(shared_->ResetGpu(1));
  ASSERT_TRUE(probe_->Devices());
  const gpu::Condition healed = MustRead(1).condition;
  EXPECT_EQ(healed.ecc_uncorrected, 0);
  EXPECT_EQ(healed.rows_remapped, 2);
  EXPECT_EQ(healed.remap_pending, false);
  EXPECT_EQ(healed.recovery, gpu::RecoveryAction::kNone);
}

TEST_F(DriverTest, WaitsForEventsOfTheChosenGpus) {
  const auto library = gpu::LoadNvml(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(library);
  const gpu::NvmlApi& api = library->api;
  ASSERT_EQ(api.init(), nvml::kSuccess);
  nvml::Device first = nullptr;
  ASSERT_EQ(api.by_index(0, &first), nvml::kSuccess);
  nvml::EventSet set = nullptr;
  nvml::EventData event{};
  ASSERT_EQ(api.events_create(&set), nvml::kSuccess);
  EXPECT_EQ(api.events_register(first, 1, set), nvml::kNotSupported);
  ASSERT_EQ(api.events_register(first, nvml::kEventXidCritical, set), nvml::kSuccess);
  EXPECT_EQ(api.events_wait(set, &event, 0), nvml::kTimeout);
  EXPECT_EQ(api.events_wait(set, &event, 1), nvml::kTimeout);
  EXPECT_EQ(api.events_wait(set, nullptr, 0), nvml::kInvalidArgument);
  std::thread announcer([this] {
    ASSERT_TRUE(shared_->AnnounceXid(1, 48));
    ASSERT_TRUE(shared_->AnnounceXid(0, 94));
  });
  EXPECT_EQ(api.events_wait(set, &event, 60'000), nvml::kSuccess);
  announcer.join();
  EXPECT_EQ(event.device, first);
  EXPECT_EQ(event.data, 94u);
  EXPECT_EQ(event.gpu_instance, nvml::kNoValue32);
  EXPECT_EQ(api.events_free(set), nvml::kSuccess);
  EXPECT_EQ(api.shutdown(), nvml::kSuccess);
}

TEST_F(DriverTest, ReportsUseByProcessExceptUnderMps) {
  const auto library = gpu::LoadNvml(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(library);
  const gpu::NvmlApi& api = library->api;
  ASSERT_EQ(api.init(), nvml::kSuccess);
  nvml::Device device = nullptr;
  ASSERT_EQ(api.by_index(0, &device), nvml::kSuccess);
  nvml::ProcessUtilization lines[4];
  std::uint32_t count = 4;
  EXPECT_EQ(api.process_utilization(device, lines, &count, 0), nvml::kNotFound);
  const auto client = Join(0, 1'000, core::SharingMethod::kMps);
  EXPECT_EQ(api.process_utilization(device, lines, &count, 0), nvml::kNotFound);
  const auto task = Join(0, 1'000, core::SharingMethod::kStreams);
  count = 0;
  EXPECT_EQ(api.process_utilization(device, nullptr, &count, 0), nvml::kInsufficientSize);
  ASSERT_EQ(count, 1u);
  ASSERT_EQ(api.process_utilization(device, lines, &count, 0), nvml::kSuccess);
  EXPECT_EQ(lines[0].pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(lines[0].sm, 50u);
  EXPECT_EQ(api.process_utilization(device, lines, &count, lines[0].timestamp_us + 1'000'000'000),
            nvml::kNotFound);
  EXPECT_EQ(api.shutdown(), nvml::kSuccess);
}

TEST(DividedDriver, ShowsInstancesAsNvmlDoes) {
  TestServer server("A100-40GB,A100-80GB:mig=3g.40gb+1g.10gb", {.time_scale = 1000});
  ::setenv(kStateVariable, server.path().c_str(), 1);
  const auto shared = Server::Attach(server.path());
  ASSERT_TRUE(shared);
  const auto library = gpu::LoadNvml(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(library);
  const gpu::NvmlApi& api = library->api;
  ASSERT_EQ(api.init(), nvml::kSuccess);
  std::uint32_t count = 0, pending = 0;
  ASSERT_EQ(api.count(&count), nvml::kSuccess);
  EXPECT_EQ(count, 2u) << "whole GPUs only";
  nvml::Device whole = nullptr, divided = nullptr, big = nullptr, small = nullptr;
  ASSERT_EQ(api.by_index(0, &whole), nvml::kSuccess);
  ASSERT_EQ(api.by_index(1, &divided), nvml::kSuccess);
  EXPECT_EQ(api.mig_mode(whole, &count, &pending), nvml::kSuccess);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(api.mig_mode(divided, &count, &pending), nvml::kSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(api.mig_count(whole, &count), nvml::kSuccess);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(api.mig_count(divided, &count), nvml::kSuccess);
  EXPECT_EQ(count, 7u);
  ASSERT_EQ(api.mig_handle(divided, 0, &big), nvml::kSuccess);
  ASSERT_EQ(api.mig_handle(divided, 1, &small), nvml::kSuccess);
  EXPECT_EQ(api.mig_handle(divided, 2, &small), nvml::kNotFound);
  EXPECT_EQ(api.mig_handle(whole, 0, &small), nvml::kNotFound);
  char text[nvml::kNameBytes];
  EXPECT_EQ(api.uuid(big, text, sizeof text), nvml::kSuccess);
  EXPECT_TRUE(std::string(text).starts_with("MIG-"));
  nvml::Device again = nullptr;
  EXPECT_EQ(api.by_uuid(text, &again), nvml::kSuccess);
  EXPECT_EQ(again, big);
  EXPECT_EQ(api.name(small, text, sizeof text), nvml::kSuccess);
  EXPECT_STREQ(text, "NVIDIA A100-SXM4-80GB MIG 1g.10gb");
  std::uint32_t id = 0;
  EXPECT_EQ(api.gpu_instance_id(small, &id), nvml::kSuccess);
  EXPECT_EQ(id, 2u);
  EXPECT_EQ(api.gpu_instance_id(divided, &id), nvml::kInvalidArgument);
  EXPECT_EQ(api.compute_instance_id(small, &id), nvml::kSuccess);
  EXPECT_EQ(id, 0u);
  nvml::DeviceAttributes attributes{};
  EXPECT_EQ(api.attributes(big, &attributes), nvml::kSuccess);
  EXPECT_EQ(attributes.multiprocessors, 42u);
  EXPECT_EQ(attributes.gpu_slices, 3u);
  EXPECT_EQ(attributes.memory_mib, 40'960u);
  nvml::GpuInstance instance = nullptr;
  nvml::GpuInstanceInfo info{};
  EXPECT_EQ(api.gpu_instance(divided, 3, &instance), nvml::kNotFound);
  ASSERT_EQ(api.gpu_instance(divided, 2, &instance), nvml::kSuccess);
  ASSERT_EQ(api.gpu_instance_info(instance, &info), nvml::kSuccess);
  EXPECT_EQ(info.device, divided);
  EXPECT_EQ(info.id, 2u);
  EXPECT_EQ(info.profile_id, 19u);

  std::optional<Shortage> shortage;
  EXPECT_FALSE((*shared)->Join({.pid = ::getpid(), .shares = {{1, 1, 0}}}, shortage))
      << "no process can run on the partitioned GPU itself";
  const auto task =
      (*shared)->Join({.pid = ::getpid(), .work_s = 1e9, .shares = {{3, 5'000, 0.1}}}, shortage);
  ASSERT_TRUE(task && *task);
  nvml::MemoryV2 memory{nvml::StructVersion<nvml::MemoryV2>(2)};
  EXPECT_EQ(api.memory_v2(small, &memory), nvml::kSuccess);
  EXPECT_EQ(memory.total >> 20, 10'240u);
  EXPECT_EQ(memory.used >> 20, 5'000u);
  EXPECT_EQ(api.memory_v2(big, &memory), nvml::kSuccess);
  EXPECT_EQ(memory.used, 0u);
  EXPECT_EQ(api.memory_v2(divided, &memory), nvml::kSuccess);
  EXPECT_EQ(memory.used >> 20, 5'000u);
  nvml::ProcessInfo lines[4];
  for (const nvml::Device handle : {small, divided}) {
    count = 4;
    ASSERT_EQ(api.compute(handle, &count, lines), nvml::kSuccess);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(lines[0].gpu_instance, 2u);
    EXPECT_EQ(lines[0].compute_instance, 0u);
  }
  nvml::Utilization utilization{};
  EXPECT_EQ(api.utilization(small, &utilization), nvml::kNotSupported);
  EXPECT_EQ(api.utilization(divided, &utilization), nvml::kNotSupported);
  std::uint32_t value = 0;
  EXPECT_EQ(api.power(small, &value), nvml::kNotSupported);
  EXPECT_EQ(api.power(divided, &value), nvml::kSuccess);

  nvml::GpmSample before = nullptr, after = nullptr;
  ASSERT_EQ(api.gpm_alloc(&before), nvml::kSuccess);
  ASSERT_EQ(api.gpm_alloc(&after), nvml::kSuccess);
  EXPECT_EQ(api.gpm_mig_get(divided, 3, before), nvml::kInvalidArgument);
  ASSERT_EQ(api.gpm_mig_get(divided, 2, before), nvml::kSuccess);
  ASSERT_EQ(api.gpm_mig_get(divided, 2, after), nvml::kSuccess);
  nvml::GpmMetricsGet metrics{nvml::kGpmVersion, 3, before, after, {}};
  metrics.metrics[0].metric_id = 1;
  metrics.metrics[1].metric_id = nvml::kGpmSmUtil;
  metrics.metrics[2].metric_id = 10;
  ASSERT_EQ(api.gpm_metrics(&metrics), nvml::kSuccess);
  EXPECT_NEAR(metrics.metrics[0].value, 100, 1e-6);
  EXPECT_NEAR(metrics.metrics[1].value, 70, 1e-6) << "a tenth of the GPU is 70 % of a 1g instance";
  EXPECT_EQ(metrics.metrics[2].result, nvml::kNotSupported);
  api.gpm_free(before);
  api.gpm_free(after);

  nvml::EventSet set = nullptr;
  nvml::EventData event{};
  ASSERT_EQ(api.events_create(&set), nvml::kSuccess);
  ASSERT_EQ(api.events_register(divided, nvml::kEventXidCritical, set), nvml::kSuccess);
  ASSERT_TRUE((*shared)->AnnounceXid(3, 31));
  ASSERT_EQ(api.events_wait(set, &event, 0), nvml::kSuccess);
  EXPECT_EQ(event.device, divided);
  EXPECT_EQ(event.gpu_instance, 2u);
  api.events_free(set);

  ASSERT_TRUE((*shared)->SetFault({FaultKind::kLost, 1, 0, ""}));
  EXPECT_EQ(api.memory_v2(small, &memory), nvml::kGpuIsLost) << "lost with its GPU";
  EXPECT_EQ(api.shutdown(), nvml::kSuccess);
  ::unsetenv(kStateVariable);
}

}  // namespace
}  // namespace carma::simgpu

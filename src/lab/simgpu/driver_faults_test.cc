// Injects every fault into every function of the simulated driver while the probe reads, both for
// one GPU and for the whole driver. The tests fail if anything crashes or hangs, if other GPUs stop
// working, or if the results differ from docs/server/gpus.md. Once a fault is cleared, everything
// must work again.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "gpu/nvml_abi.h"
#include "gpu/nvml_library.h"
#include "gpu/nvml_probe.h"
#include "lab/simgpu/server_fixture.h"
#include "lab/simgpu/state.h"
#include "test_paths.h"

namespace carma::simgpu {
namespace {

namespace nvml = gpu::nvml;

// How an error in a function affects a reading of a whole GPU. Functions that are not listed do not
// affect readings.
enum class Role { kNothing, kTells, kDecides };
struct RoleOf {
  std::string_view function;
  Role role;
};
constexpr std::array kRoles{
    RoleOf{"nvmlDeviceGetMemoryInfo_v2", Role::kDecides},
    RoleOf{"nvmlDeviceGetComputeRunningProcesses_v3", Role::kDecides},
    RoleOf{"nvmlDeviceGetGraphicsRunningProcesses_v3", Role::kDecides},
    RoleOf{"nvmlDeviceGetMPSComputeRunningProcesses_v3", Role::kDecides},
    RoleOf{"nvmlDeviceGetUtilizationRates", Role::kDecides},
    RoleOf{"nvmlDeviceGetPowerUsage", Role::kDecides},
    RoleOf{"nvmlDeviceGetTotalEnergyConsumption", Role::kDecides},
    RoleOf{"nvmlDeviceGetTemperature", Role::kDecides},
    RoleOf{"nvmlGpmSampleGet", Role::kDecides},
    RoleOf{"nvmlDeviceGetClockInfo", Role::kTells},
    RoleOf{"nvmlDeviceGetTotalEccErrors", Role::kTells},
    RoleOf{"nvmlDeviceGetRemappedRows", Role::kTells},
    RoleOf{"nvmlDeviceGetComputeMode", Role::kTells},
    RoleOf{"nvmlDeviceGetMigMode", Role::kTells},
    RoleOf{"nvmlDeviceGetProcessUtilization", Role::kTells},
    RoleOf{"nvmlDeviceGetFieldValues", Role::kTells},
};

Role RoleIn(std::string_view function) {
  const auto* found =
      std::ranges::find_if(kRoles, [&](const RoleOf& each) { return each.function == function; });
  return found == kRoles.end() ? Role::kNothing : found->role;
}

std::vector<std::string> EveryFunction() {
  std::vector<std::string> names;
  const gpu::NvmlApi api([&names](const std::string& name) {
    // The excluded functions only serve to choose which of two functions lists processes.
    if (!name.ends_with("Processes_v2") && name != "nvmlDeviceGetConfComputeMemSizeInfo")
      names.push_back(name);
    return nullptr;
  });
  return names;
}

// All faults of one function, including an error with each code.
std::vector<Fault> EveryFault(std::int32_t gpu, const std::string& function) {
  std::vector<Fault> faults = {{FaultKind::kLost, gpu, 0, function},
                               {FaultKind::kVanish, gpu, 0, function}};
  for (nvml::Return code = 1; code <= 27; ++code)
    faults.push_back({FaultKind::kError, gpu, code, function});
  faults.push_back({FaultKind::kError, gpu, nvml::kUnknown, function});
  return faults;
}

nvml::Return CodeOf(const Fault& fault) {
  if (fault.kind == FaultKind::kLost) return nvml::kGpuIsLost;
  return fault.kind == FaultKind::kVanish ? nvml::kDriverNotLoaded : fault.code;
}

// The reading's error code; kInvalid stands for success.
ErrorCode Outcome(const gpu::ReadResult<gpu::Reading>& reading) {
  return reading ? ErrorCode::kInvalid : reading.error().code;
}

std::vector<ErrorCode> Documented(Role role, nvml::Return code) {
  const bool lost = code == nvml::kGpuIsLost;
  const ErrorCode fails = lost ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  const bool gone = lost || gpu::MeansDriverGone(code);
  if (role == Role::kNothing || (role == Role::kTells && !gone)) return {ErrorCode::kInvalid};
  if (role == Role::kDecides && gpu::MeansAbsent(code)) return {ErrorCode::kInvalid};
  // If the driver keeps requesting a larger buffer, its process list is not trusted.
  if (code == nvml::kInsufficientSize) return {fails, ErrorCode::kCorrupt};
  return {fails};
}

class DriverFaultsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ::setenv(kStateVariable, server_.path().c_str(), 1);
    auto server = Server::Attach(server_.path());
    ASSERT_TRUE(server) << server.error().message;
    shared_ = std::move(*server);
    auto probe = gpu::LoadNvmlProbe(CARMA_SIMGPU_DRIVER);
    ASSERT_TRUE(probe) << probe.error().message;
    probe_ = std::move(*probe);
    // Start a task on each GPU and each instance, except GPUs that are divided into instances.
    for (int place = 0; place < shared_->place_count(); ++place) {
      if (shared_->places()[static_cast<std::size_t>(place)].mig) continue;
      std::optional<Shortage> shortage;
      auto joined = shared_->Join(
          {.pid = ::getpid(), .work_s = 1e9, .shares = {{place, 1'000, 0.1}}}, shortage);
      ASSERT_TRUE(joined && *joined);
      residents_.push_back(std::move(*joined));
    }
    const auto devices = probe_->Devices();
    ASSERT_TRUE(devices) << devices.error().message;
    count_ = devices->size();
    ASSERT_EQ(count_, residents_.size());
  }
  void TearDown() override { ::unsetenv(kStateVariable); }

  bool Divided() const { return shared_->places()[0].mig; }
  // Waits long enough for the GPU's condition to be read again, then reads.
  gpu::Reading MustRead(std::size_t device) {
    const auto reading = Read(device);
    EXPECT_TRUE(reading) << reading.error().message;
    return reading.value_or(gpu::Reading{});
  }
  gpu::ReadResult<gpu::Reading> Read(std::size_t device) {
    now_ += gpu::kConditionSpan;
    return probe_->Read(device, now_);
  }
  // The other GPU is the last device in the list.
  void ExpectTheOtherServes(std::size_t count) {
    const gpu::Reading reading = MustRead(count - 1);
    EXPECT_EQ(reading.used_mib, 1'000);
    EXPECT_EQ(reading.processes.size(), 1u);
    EXPECT_TRUE(reading.sm_active && reading.power_w && reading.condition.ecc_uncorrected);
  }
  void ExpectAllWhole() {
    const auto devices = probe_->Devices();
    ASSERT_TRUE(devices) << devices.error().message;
    ASSERT_EQ(devices->size(), count_);
    for (std::size_t i = 0; i < count_; ++i) {
      EXPECT_EQ((*devices)[i].trouble.text, "");
      EXPECT_EQ(MustRead(i).used_mib, 1'000);
    }
  }

  TestServer server_{GetParam(), {.time_scale = 1000}};
  std::unique_ptr<Server> shared_;
  std::unique_ptr<gpu::Probe> probe_;
  std::vector<std::unique_ptr<Residency>> residents_;
  std::size_t count_ = 0;
  base::Time now_{};
};

TEST_P(DriverFaultsTest, TheDriverExportsAllFunctionsOfTheProbe) {
  const auto library = gpu::LoadNvml(CARMA_SIMGPU_DRIVER);
  ASSERT_TRUE(library);
  for (const std::string& name : EveryFunction())
    EXPECT_NE(::dlsym(library->handle.get(), name.c_str()), nullptr) << name;
}

TEST_P(DriverFaultsTest, SurvivesFaultsOfOneGpuWhileReading) {
  for (const std::string& function : EveryFunction()) {
    for (const Fault& fault : EveryFault(0, function)) {
      SCOPED_TRACE(function + " answers " + std::to_string(CodeOf(fault)));
      ASSERT_TRUE(shared_->SetFault(fault));
      const auto reading = Read(0);
      ExpectTheOtherServes(count_);
      if (!Divided()) {
        EXPECT_THAT(Documented(RoleIn(function), CodeOf(fault)),
                    ::testing::Contains(Outcome(reading)));
      } else if (!reading) {
        EXPECT_THAT(reading.error().gpu, ::testing::StartsWith("MIG-"));
      }
      ASSERT_TRUE(shared_->ClearFaults());
      for (std::size_t i = 0; i < count_; ++i) EXPECT_EQ(MustRead(i).used_mib, 1'000);
    }
  }
}

TEST_P(DriverFaultsTest, SurvivesFaultsOfOneGpuWhileListing) {
  for (const std::string& function : EveryFunction()) {
    for (const Fault& fault : EveryFault(0, function)) {
      SCOPED_TRACE(function + " answers " + std::to_string(CodeOf(fault)));
      ASSERT_TRUE(shared_->SetFault(fault));
      const auto devices = probe_->Devices();
      ASSERT_TRUE(devices) << devices.error().message;
      const auto other = std::ranges::find_if(*devices, [this](const gpu::DeviceInfo& each) {
        return each.uuid == shared_->places()[1].uuid;
      });
      ASSERT_NE(other, devices->end());
      EXPECT_EQ(other->trouble.text, "");
      const auto place = static_cast<std::size_t>(other - devices->begin());
      EXPECT_EQ(MustRead(place).used_mib, 1'000);
      for (std::size_t i = 0; i < devices->size(); ++i) {
        if ((*devices)[i].trouble.empty()) continue;
        EXPECT_EQ(Outcome(Read(i)), ErrorCode::kNotFound);
      }
      ASSERT_TRUE(shared_->ClearFaults());
      ExpectAllWhole();
    }
  }
}

TEST_P(DriverFaultsTest, SurvivesFaultsOfTheWholeDriver) {
  for (const std::string& function : EveryFunction()) {
    for (const Fault& fault : EveryFault(kWholeDriver, function)) {
      SCOPED_TRACE(function + " answers " + std::to_string(CodeOf(fault)));
      ASSERT_TRUE(shared_->SetFault(fault));
      for (std::size_t i = 0; i < count_; ++i) (void)Read(i);
      if (const auto devices = probe_->Devices()) {
        for (std::size_t i = 0; i < devices->size(); ++i) (void)Read(i);
      }
      ASSERT_TRUE(shared_->ClearFaults());
      ExpectAllWhole();
    }
  }
}

TEST_P(DriverFaultsTest, CallersReturnWhenAHangEnds) {
  for (const std::int32_t gpu : {0, kWholeDriver}) {
    for (const std::string& function : EveryFunction()) {
      SCOPED_TRACE(function);
      ASSERT_TRUE(shared_->SetFault({FaultKind::kHang, gpu, 0, function}));
      std::thread worker([this] {
        (void)Read(0);
        (void)probe_->Devices();
      });
      ASSERT_TRUE(shared_->ClearFaults());
      worker.join();
      ExpectAllWhole();
    }
  }
}

TEST_P(DriverFaultsTest, DetectsWrongReadings) {
  for (const FaultKind lie :
       {FaultKind::kNanActivity, FaultKind::kUsedOverTotal, FaultKind::kNoMemoryValue}) {
    SCOPED_TRACE(base::WordOf(lie));
    ASSERT_TRUE(shared_->SetFault({lie, 0, 0, ""}));
    EXPECT_EQ(Outcome(Read(0)), ErrorCode::kCorrupt);
    ExpectTheOtherServes(count_);
    ASSERT_TRUE(shared_->ClearFaults());
    ExpectAllWhole();
  }
}

TEST_P(DriverFaultsTest, LosingAGpuLosesItsInstances) {
  for (const FaultKind kind : {FaultKind::kLost, FaultKind::kVanish}) {
    ASSERT_TRUE(shared_->SetFault({kind, 0, 0, ""}));
    for (std::size_t i = 0; i + 1 < count_; ++i) {
      EXPECT_EQ(Outcome(Read(i)),
                kind == FaultKind::kLost ? ErrorCode::kNotFound : ErrorCode::kUnavailable);
    }
    ExpectTheOtherServes(count_);
    ASSERT_TRUE(shared_->ClearFaults());
    ExpectAllWhole();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DriverFaultsTest,
                         ::testing::Values("2xA100-40GB", "A100-40GB:mig=3g.20gb+1g.5gb,A100-40GB"),
                         [](const auto& shape) {
                           return std::string(shape.index == 0 ? "Whole" : "Divided");
                         });

}  // namespace
}  // namespace carma::simgpu

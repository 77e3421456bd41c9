// Makes every NVML function fail with every possible error, for one GPU and for the whole driver,
// and removes each function in turn. The other GPUs must keep working, and each error must have the
// documented effect (docs/server/gpus.md).
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "gpu/fake_nvml/fake_nvml_test.h"
#include "gpu/nvml_library.h"
#include "test_paths.h"

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Effect of an error in a function, from least to most severe.
enum class Role {
  kNothing,    // the error has no effect
  kTells,      // a value is absent, unless the GPU or the driver is lost
  kDecides,    // the reading fails, unless the error means that there is no value
  kMemory,     // the reading fails, or the pre-R510 function is used
  kIdentity,   // the GPU cannot be described
  kFoundation  // no GPU can be listed
};

struct Function {
  const char* name;
  Role at_list;          // while GPUs are listed
  Role at_read;          // while a GPU is read
  bool of_a_gpu = true;  // false: a function of the driver or the library
};

constexpr Function kFunctions[] = {
    {"nvmlInit_v2", Role::kFoundation, Role::kNothing, false},
    {"nvmlShutdown", Role::kNothing, Role::kNothing, false},
    {"nvmlErrorString", Role::kNothing, Role::kNothing, false},
    {"nvmlSystemGetDriverVersion", Role::kNothing, Role::kNothing, false},
    {"nvmlSystemGetNVMLVersion", Role::kNothing, Role::kNothing, false},
    {"nvmlSystemGetCudaDriverVersion_v2", Role::kNothing, Role::kNothing, false},
    {"nvmlDeviceGetCount_v2", Role::kFoundation, Role::kNothing, false},
    {"nvmlDeviceGetHandleByIndex_v2", Role::kIdentity, Role::kNothing},
    {"nvmlDeviceGetHandleByUUID", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetUUID", Role::kIdentity, Role::kNothing},
    {"nvmlDeviceGetName", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetPciInfo_v3", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetMemoryInfo_v2", Role::kMemory, Role::kMemory},
    {"nvmlDeviceGetMemoryInfo", Role::kNothing, Role::kNothing},
    {"nvmlDeviceSetMemoryLimits_v1", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetMemoryLimits_v1", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetComputeRunningProcesses_v3", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetUtilizationRates", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetPowerUsage", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetTotalEnergyConsumption", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetTemperature", Role::kNothing, Role::kDecides},
    {"nvmlDeviceGetTemperatureV", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetClockInfo", Role::kNothing, Role::kTells},
    {"nvmlDeviceGetTotalEccErrors", Role::kNothing, Role::kTells},
    {"nvmlDeviceGetRemappedRows", Role::kNothing, Role::kTells},
    {"nvmlDeviceGetComputeMode", Role::kNothing, Role::kTells},
    {"nvmlDeviceGetNvLinkState", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetNvLinkRemoteDeviceType", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetMigMode", Role::kTells, Role::kTells},
    {"nvmlDeviceGetMaxMigDeviceCount", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetMigDeviceHandleByIndex", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetGpuInstanceId", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetComputeInstanceId", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetAttributes_v2", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetGpuInstanceById", Role::kNothing, Role::kNothing},
    {"nvmlGpuInstanceGetInfo", Role::kNothing, Role::kNothing, false},
    {"nvmlDeviceGetProcessUtilization", Role::kNothing, Role::kTells},
    {"nvmlDeviceGetFieldValues", Role::kNothing, Role::kTells},
    {"nvmlEventSetCreate", Role::kNothing, Role::kNothing, false},
    {"nvmlEventSetFree", Role::kNothing, Role::kNothing, false},
    {"nvmlDeviceRegisterEvents", Role::kNothing, Role::kNothing},
    {"nvmlEventSetWait_v2", Role::kNothing, Role::kNothing, false},
    {"nvmlGpmQueryDeviceSupport", Role::kNothing, Role::kNothing},
    {"nvmlGpmSampleAlloc", Role::kNothing, Role::kNothing, false},
    {"nvmlGpmSampleFree", Role::kNothing, Role::kNothing, false},
    {"nvmlGpmSampleGet", Role::kNothing, Role::kDecides},
    {"nvmlGpmMigSampleGet", Role::kNothing, Role::kNothing},
    {"nvmlGpmMetricsGet", Role::kNothing, Role::kDecides},
};
// Functions called for the instances of a MIG GPU. All others are called only for whole GPUs.
constexpr Function kOfInstances[] = {
    {"nvmlDeviceGetMaxMigDeviceCount", Role::kIdentity, Role::kNothing},
    {"nvmlDeviceGetMigDeviceHandleByIndex", Role::kIdentity, Role::kNothing},
    {"nvmlDeviceGetGpuInstanceId", Role::kIdentity, Role::kNothing},
    {"nvmlDeviceGetComputeInstanceId", Role::kIdentity, Role::kNothing},
    {"nvmlDeviceGetAttributes_v2", Role::kNothing, Role::kNothing},
    {"nvmlDeviceGetGpuInstanceById", Role::kNothing, Role::kNothing},
    {"nvmlGpmMigSampleGet", Role::kNothing, Role::kDecides},
};

std::vector<nvml::Return> EveryError() {
  std::vector<nvml::Return> codes;
  for (nvml::Return code = 1; code <= 27; ++code) codes.push_back(code);
  codes.push_back(nvml::kUnknown);
  codes.push_back(4'711);  // an error code of a future driver
  codes.push_back(-1);
  return codes;
}

// The error code expected from a reading. kInvalid stands for success.
ErrorCode Expected(Role role, nvml::Return code) {
  constexpr ErrorCode kSucceeds = ErrorCode::kInvalid;
  const ErrorCode fails = code == nvml::kGpuIsLost ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  const bool gone = code == nvml::kGpuIsLost || MeansDriverGone(code);
  switch (role) {
    case Role::kNothing:
      return kSucceeds;
    case Role::kTells:
      return gone ? fails : kSucceeds;
    case Role::kDecides:
    case Role::kMemory:
      return MeansAbsent(code) ? kSucceeds : fails;
    case Role::kIdentity:
    case Role::kFoundation:
      return fails;
  }
  return fails;
}

ErrorCode Outcome(const ReadResult<Reading>& reading) {
  return reading ? ErrorCode::kInvalid : reading.error().code;
}

class NvmlFaultsTest : public FakeNvmlTest {
 protected:
  void SetUp() override {
    FakeNvmlTest::SetUp();
    // The driver lists GPUs in PCI order. One without an address keeps its place in this list.
    std::swap(nvml_->gpus[0], nvml_->gpus[1]);
    for (FakeNvmlGpu& gpu : nvml_->gpus) gpu.compute = {Process(11, 100)};
  }
  FakeNvmlGpu& Faulty() { return nvml_->gpus[0]; }
  void Heal() {
    nvml_->errors.clear();
    Faulty().errors.clear();
    for (FakeNvmlInstance& instance : Faulty().instances) instance.errors.clear();
  }
  // The last device is the healthy GPU, which has no instances.
  void ExpectTheOtherServes(std::size_t count) {
    const Reading reading = MustRead(count - 1);
    EXPECT_EQ(reading.used_mib, 10'000);
    EXPECT_EQ(reading.processes.size(), 1u);
    EXPECT_TRUE(reading.sm_active && reading.power_w && reading.condition.ecc_uncorrected);
  }
};

TEST_F(NvmlFaultsTest, TableContainsEveryFunction) {
  std::vector<std::string> named, known;
  for (const Function& function : kFunctions) named.push_back(function.name);
  const NvmlApi api([&known](const std::string& name) {
    // Skips functions that are looked up only to decide which function lists processes.
    if (!name.ends_with("Processes_v2") && name != "nvmlDeviceGetConfComputeMemSizeInfo")
      known.push_back(name);
    return nullptr;
  });
  EXPECT_EQ(named, known);
}

TEST_F(NvmlFaultsTest, AGpuFailsWhileItIsRead) {
  for (const Function& function : kFunctions) {
    if (!function.of_a_gpu) continue;
    for (const nvml::Return code : EveryError()) {
      SCOPED_TRACE(std::string(function.name) + " answers " + std::to_string(code));
      ASSERT_TRUE(probe_->Devices());
      MustRead(0);
      Faulty().errors = {{function.name, code}};
      const auto reading = probe_->Read(0, base::FromMs(5) + kConditionSpan);
      // An absurd number of processes is an error. An empty list is valid.
      const bool absurd = code == nvml::kInsufficientSize && function.at_read == Role::kDecides &&
                          std::string(function.name).find("Processes") != std::string::npos;
      EXPECT_EQ(Outcome(reading), absurd ? ErrorCode::kCorrupt : Expected(function.at_read, code));
      ExpectTheOtherServes(2);
      Heal();
      EXPECT_EQ(MustRead(0).used_mib, 10'000) << "nothing stays behind";
    }
  }
}

TEST_F(NvmlFaultsTest, AGpuFailsWhileItIsListed) {
  for (const Function& function : kFunctions) {
    if (!function.of_a_gpu) continue;
    for (const nvml::Return code : EveryError()) {
      SCOPED_TRACE(std::string(function.name) + " answers " + std::to_string(code));
      Faulty().errors = {{function.name, code}};
      auto devices = probe_->Devices();
      ASSERT_TRUE(devices) << devices.error().message;
      ASSERT_EQ(devices->size(), 2u);
      const bool whole = Expected(function.at_list, code) == ErrorCode::kInvalid;
      EXPECT_EQ((*devices)[0].trouble.empty(), whole) << (*devices)[0].trouble.text;
      EXPECT_EQ((*devices)[0].total_mib, whole ? 40'960 : 0);
      EXPECT_EQ((*devices)[1].uuid, "GPU-b") << "its place on the bus is kept";
      if (!whole) {
        EXPECT_THAT((*devices)[0].trouble.text, HasSubstr("NVML " + std::to_string(code)));
        EXPECT_EQ(Outcome(probe_->Read(0, {})), ErrorCode::kNotFound);
      }
      ExpectTheOtherServes(2);
      Heal();
      devices = probe_->Devices();
      ASSERT_TRUE(devices);
      EXPECT_EQ((*devices)[0].uuid, "GPU-a");
      EXPECT_THAT((*devices)[0].trouble.text, IsEmpty()) << "whole again";
      MustRead(0);
    }
  }
}

TEST_F(NvmlFaultsTest, ADividedGpuFails) {
  FakeNvmlInstance instance;
  instance.uuid = "MIG-1";
  instance.memory = {.version = 0, .total = 19'968 * kMib, .reserved = 0, .free = 0, .used = kMib};
  Faulty().mig_mode = 1;
  Faulty().instances = {instance};
  for (const Function& function : kOfInstances) {
    for (const nvml::Return code : EveryError()) {
      SCOPED_TRACE(std::string(function.name) + " answers " + std::to_string(code));
      Faulty().errors = Faulty().instances[0].errors = {{function.name, code}};
      const auto devices = probe_->Devices();
      ASSERT_TRUE(devices) << devices.error().message;
      ASSERT_EQ(devices->size(), 2u);
      const bool whole = Expected(function.at_list, code) == ErrorCode::kInvalid;
      EXPECT_EQ((*devices)[0].trouble.empty(), whole) << (*devices)[0].trouble.text;
      EXPECT_EQ(Outcome(probe_->Read(0, {})),
                whole ? Expected(function.at_read, code) : ErrorCode::kNotFound);
      ExpectTheOtherServes(2);
      Heal();
      ASSERT_TRUE(probe_->Devices());
      EXPECT_EQ(MustRead(0).used_mib, 1);
    }
  }
}

TEST_F(NvmlFaultsTest, AGpuDoesNotReturnAfterADriverReload) {
  for (const nvml::Return code : EveryError()) {
    SCOPED_TRACE(code);
    ASSERT_TRUE(probe_->Devices());
    nvml_->initialised = false;
    EXPECT_EQ(Outcome(probe_->Read(1, {})), ErrorCode::kUnavailable);
    Faulty().errors = {{"nvmlDeviceGetHandleByUUID", code}};
    ExpectTheOtherServes(2);
    EXPECT_EQ(Outcome(probe_->Read(0, {})), ErrorCode::kNotFound);
    Heal();
  }
}

TEST_F(NvmlFaultsTest, TheWholeDriverFails) {
  for (const Function& function : kFunctions) {
    for (const nvml::Return code : EveryError()) {
      SCOPED_TRACE(std::string(function.name) + " answers " + std::to_string(code));
      nvml_->errors = {{function.name, code}};
      const auto devices = probe_->Devices();
      const bool listed = Expected(function.at_list, code) == ErrorCode::kInvalid;
      EXPECT_EQ(devices.has_value(), listed);
      if (devices) {
        EXPECT_EQ(devices->size(), 2u);
      }
      for (const std::size_t gpu : {0, 1}) (void)probe_->Read(gpu, base::FromMs(5));
      Heal();
      ASSERT_TRUE(probe_->Devices());
      ExpectTheOtherServes(2);
      MustRead(0);
    }
  }
}

TEST_F(NvmlFaultsTest, TheLibraryLacksAFunction) {
  Faulty().mig_mode = 1;
  FakeNvmlInstance instance;
  instance.uuid = "MIG-1";
  instance.memory = {.version = 0, .total = 19'968 * kMib, .reserved = 0, .free = 0, .used = kMib};
  Faulty().instances = {instance};
  // LoadNvml() rejects a library without these functions.
  const std::vector<std::string> indispensable = {
      "nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"};
  for (const Function& function : kFunctions) {
    if (std::ranges::find(indispensable, function.name) != indispensable.end()) continue;
    SCOPED_TRACE(std::string(function.name) + " is missing");
    auto library = LoadNvml(CARMA_FAKE_NVML);
    ASSERT_TRUE(library);
    library->api = NvmlApi([&](const char* name) {
      return name == std::string_view(function.name) ? nullptr
                                                     : ::dlsym(library->handle.get(), name);
    });
    const std::unique_ptr<Probe> probe = MakeNvmlProbe(std::move(*library));
    const auto devices = probe->Devices();
    ASSERT_TRUE(devices) << devices.error().message;
    ASSERT_EQ(devices->size(), 2u);
    for (std::size_t i = 0; i < devices->size(); ++i) {
      const auto reading = probe->Read(i, base::FromMs(5));
      EXPECT_EQ(reading.has_value(), (*devices)[i].trouble.empty());
    }
    const auto whole = std::ranges::find(*devices, "GPU-b", &DeviceInfo::uuid);
    ASSERT_NE(whole, devices->end());
    EXPECT_THAT(whole->trouble.text, IsEmpty());
  }
}

}  // namespace
}  // namespace carma::gpu

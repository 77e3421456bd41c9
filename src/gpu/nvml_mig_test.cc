// Tests MIG GPUs, MPS clients and per-process GPU usage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/fake_nvml/fake_nvml_test.h"
#include "gpu/nvml_devices.h"

namespace carma::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// GPU-a, the first in PCI order, has two instances. GPU-b has none.
class NvmlMigTest : public FakeNvmlTest {
 protected:
  void SetUp() override {
    FakeNvmlTest::SetUp();
    Divided().mig_mode = 1;
    Divided().instances = {Instance("MIG-1", 2), Instance("MIG-2", 5)};
  }
  FakeNvmlGpu& Divided() { return nvml_->gpus[1]; }
  FakeNvmlInstance& First() { return Divided().instances[0]; }
  FakeNvmlInstance& Second() { return Divided().instances[1]; }
  static FakeNvmlInstance Instance(const char* uuid, std::uint32_t number) {
    FakeNvmlInstance instance;
    instance.uuid = uuid;
    instance.gpu_instance = number;
    instance.memory = {.version = 0,
                       .total = 19'968 * kMib,
                       .reserved = 10 * kMib,
                       .free = 18'958 * kMib,
                       .used = 1'000 * kMib};
    return instance;
  }
  static nvml::ProcessInfo Of(std::uint32_t instance, std::uint32_t pid, std::uint64_t mib) {
    return {pid, mib * kMib, instance, 0};
  }
  std::vector<DeviceInfo> MustList() {
    auto devices = probe_->Devices();
    EXPECT_TRUE(devices) << devices.error().message;
    return devices.value_or(std::vector<DeviceInfo>{});
  }
};

TEST_F(NvmlMigTest, ListsInstancesInPlaceOfTheirGpu) {
  const std::vector<DeviceInfo> devices = MustList();
  ASSERT_EQ(devices.size(), 3u);
  const DeviceInfo first = {.uuid = "MIG-1",
                            .name = "Fake GPU MIG 3g.20gb",
                            .pci = "00000000:07:00.0",
                            .total_mib = 19'968,
                            .reserved_mib = 10,
                            .reports_sm_activity = true,
                            .mig = MigPlace{"GPU-a", 2, 0, 9, "3g.20gb"}};
  EXPECT_EQ(devices[0], first);
  EXPECT_EQ(devices[1].uuid, "MIG-2");
  EXPECT_EQ(devices[1].mig->gpu_instance, 5);
  EXPECT_EQ(devices[2].uuid, "GPU-b");
  EXPECT_FALSE(devices[2].mig);
}

TEST_F(NvmlMigTest, ReportsHowManySlicesTheWholeGpuHas) {
  EXPECT_EQ(MustList()[0].mig->slices, 7);
  Divided().mig_slices = 4;
  EXPECT_EQ(MustList()[0].mig->slices, 4);
}

TEST_F(NvmlMigTest, LeavesOutUnknownFactsOfAnInstance) {
  Divided().errors = {{"nvmlDeviceGetGpuInstanceById", nvml::kNoPermission},
                      {"nvmlDeviceGetMemoryInfo_v2", nvml::kNoPermission},
                      {"nvmlDeviceGetMemoryInfo", nvml::kNoPermission}};
  Second().errors = {{"nvmlDeviceGetAttributes_v2", nvml::kNotSupported}};
  const std::vector<DeviceInfo> devices = MustList();
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].mig->profile, -1);
  EXPECT_EQ(devices[0].mig->profile_name, "3g.20gb") << "derived from its own memory";
  EXPECT_EQ(devices[1].mig->profile_name, "");
  EXPECT_EQ(devices[1].name, "Fake GPU MIG");
  for (const DeviceInfo& device : devices) EXPECT_THAT(device.trouble.text, IsEmpty());
}

TEST_F(NvmlMigTest, ReadsInstancesByTheirOwnHandle) {
  First().sm_percent = 40;
  Second().sm_percent = 5;
  First().compute = {Of(2, 11, 900)};
  Divided().sm_percent = 99;
  Divided().utilization = 77;
  Divided().power_mw = 200'000;
  Divided().energy_mj = 5'000;
  Divided().temperature = 61;
  Divided().ecc_corrected = 4;
  MustList();
  const Reading first = MustRead(0);
  EXPECT_EQ(first.total_mib, 19'968);
  EXPECT_EQ(first.used_mib, 1'000);
  EXPECT_EQ(first.sm_active, 0.4);
  EXPECT_EQ(first.counters, CounterSource::kGpm);
  EXPECT_FALSE(first.utilization) << "the driver reports none for instances";
  EXPECT_THAT(first.processes, ElementsAre(ProcessUse{.pid = 11, .used_mib = 900}));
  const Reading second = MustRead(1);
  EXPECT_EQ(second.sm_active, 0.05);
  EXPECT_THAT(second.processes, IsEmpty());
  // Power and energy are measured for the whole GPU and reported once. Other values of the whole
  // GPU are repeated for each instance.
  EXPECT_EQ(first.power_w, 200.0);
  EXPECT_EQ(first.energy_j, 5.0);
  EXPECT_FALSE(second.power_w || second.energy_j);
  for (const Reading& reading : {first, second}) {
    EXPECT_EQ(reading.temperature_c, 61.0);
    EXPECT_EQ(reading.sm_clock_mhz, 1'410.0);
    EXPECT_EQ(reading.condition.ecc_corrected, 4);
    EXPECT_EQ(reading.condition.mig, true);
  }
  EXPECT_EQ(nvml_->calls["nvmlDeviceGetRemappedRows"], 1) << "the whole GPU is queried once";
}

TEST_F(NvmlMigTest, UsesTheWholeGpusListIfInstancesHaveNone) {
  for (const nvml::Return code : {nvml::kNotSupported, nvml::kInvalidArgument}) {
    First().errors = Second().errors = {{"nvmlDeviceGetComputeRunningProcesses_v3", code}};
    Divided().compute = {
        Of(2, 11, 900), Of(5, 12, 800), Process(13, 700), Of(2, 11, 50), {14, 600 * kMib, 2, 3}};
    MustList();
    EXPECT_THAT(MustRead(0).processes, ElementsAre(ProcessUse{.pid = 11, .used_mib = 950}));
    EXPECT_THAT(MustRead(1).processes, ElementsAre(ProcessUse{.pid = 12, .used_mib = 800}));
  }
}

TEST_F(NvmlMigTest, AssignsXidsToTheInstanceThatTheyName) {
  MustList();
  nvml_->events = {{.gpu = 1, .data = 31, .gpu_instance = 5, .compute_instance = 0},
                   {.gpu = 1, .data = 79},
                   {.gpu = 1, .data = 48, .gpu_instance = 9},
                   {.gpu = 0, .data = 13}};
  EXPECT_THAT(MustRead(0).xids, ElementsAre(79, 48)) << "an unknown instance means all";
  EXPECT_THAT(MustRead(1).xids, ElementsAre(31, 79, 48));
  EXPECT_THAT(MustRead(2).xids, ElementsAre(13));
}

TEST_F(NvmlMigTest, ReportsADividedGpuWithoutInstances) {
  Divided().instances.clear();
  std::vector<DeviceInfo> devices = MustList();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].uuid, "GPU-a");
  EXPECT_EQ(devices[0].pci, "00000000:07:00.0");
  EXPECT_EQ(devices[0].total_mib, 0);
  EXPECT_EQ(devices[0].trouble.Sentence(), "GPU GPU-a: MIG is on but there are no instances");
  EXPECT_EQ(devices[0].trouble.cause, TroubleCause::kNoInstance);
  EXPECT_EQ(probe_->Read(0, {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MustRead(1).used_mib, 10'000);
  Divided().instances = {Instance("MIG-1", 2)};
  devices = MustList();
  EXPECT_EQ(devices[0].uuid, "MIG-1");
  EXPECT_THAT(devices[0].trouble.text, IsEmpty());
}

TEST_F(NvmlMigTest, ReportsADividedGpuWhoseInstancesCannotBeOpened) {
  First().errors = Second().errors = {{"nvmlDeviceGetMigDeviceHandleByIndex", nvml::kNoPermission}};
  const std::vector<DeviceInfo> devices = MustList();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].uuid, "GPU-a");
  EXPECT_EQ(devices[0].trouble.cause, TroubleCause::kHiddenInstances);
}

TEST_F(NvmlMigTest, AnUndescribableInstanceDoesNotAffectOthers) {
  for (const char* function :
       {"nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetMemoryInfo_v2"}) {
    SCOPED_TRACE(function);
    First().errors = {{function, nvml::kUnknown}};
    const std::vector<DeviceInfo> devices = MustList();
    ASSERT_EQ(devices.size(), 3u);
    EXPECT_THAT(devices[0].trouble.text, HasSubstr("some error"));
    EXPECT_THAT(devices[0].uuid, HasSubstr("MIG-"));
    EXPECT_EQ(probe_->Read(0, {}).error().code, ErrorCode::kNotFound);
    EXPECT_TRUE(MustRead(1).energy_j) << "now the first readable instance reports it";
  }
}

TEST_F(NvmlMigTest, RejectsComputeInstancesThatShareMemory) {
  Second().gpu_instance = First().gpu_instance;
  Second().compute_instance = 1;
  First().compute_slices = Second().compute_slices = 1;
  const std::vector<DeviceInfo> devices = MustList();
  EXPECT_EQ(devices[0].mig->profile_name, "1c.3g.20gb");
  EXPECT_THAT(devices[0].trouble.text, IsEmpty());
  EXPECT_THAT(devices[1].trouble.text, HasSubstr("shares its memory with MIG-1"));
  EXPECT_EQ(devices[1].trouble.cause, TroubleCause::kSharedMemory);
  EXPECT_EQ(devices[1].total_mib, 0);
}

TEST_F(NvmlMigTest, FindsInstancesAgainAfterADriverReload) {
  MustList();
  nvml_->initialised = false;
  EXPECT_EQ(probe_->Read(1, {}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(MustRead(1).total_mib, 19'968);
  nvml_->initialised = false;
  EXPECT_FALSE(probe_->Read(0, {}));
  Divided().instances.pop_back();  // and one instance has disappeared
  EXPECT_EQ(MustRead(0).total_mib, 19'968);
  EXPECT_EQ(probe_->Read(1, {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MustRead(2).total_mib, 40'960);
}

TEST(MigProfileName, MatchesNvidiasTools) {
  const struct {
    std::uint32_t gpu_slices, compute_slices;
    std::uint64_t memory_mib;
    std::int64_t board_mib;
    const char* name;
  } cases[] = {
      {1, 1, 4'864, 40'960, "1g.5gb"},
      {2, 2, 9'856, 40'960, "2g.10gb"},
      {3, 3, 19'968, 40'960, "3g.20gb"},
      {7, 7, 40'192, 40'960, "7g.40gb"},
      {1, 1, 9'728, 81'920, "1g.10gb"},
      {7, 7, 81'152, 81'920, "7g.80gb"},
      {1, 1, 16'384, 143'771, "1g.18gb"},
      {3, 3, 71'424, 143'771, "3g.71gb"},
      {1, 1, 5'952, 24'576, "1g.6gb"},
      {3, 1, 19'968, 40'960, "1c.3g.20gb"},
      {1, 1, 4'864, 0, "1g.5gb"},
      {0, 0, 4'864, 40'960, ""},
      {3, 3, 0, 40'960, ""},
  };
  for (const auto& c : cases) {
    nvml::DeviceAttributes attributes{};
    attributes.gpu_slices = c.gpu_slices;
    attributes.compute_slices = c.compute_slices;
    attributes.memory_mib = c.memory_mib;
    EXPECT_EQ(MigProfileName(attributes, c.board_mib), c.name);
  }
}

using NvmlProcessesTest = FakeNvmlTest;

TEST_F(NvmlProcessesTest, RecognisesMpsClientsByTheirList) {
  nvml_->gpus[1].compute = {Process(11, 400), Process(12, 300)};
  nvml_->gpus[1].mps = {Process(12, 300), Process(13, 200)};
  ASSERT_TRUE(probe_->Devices());
  EXPECT_THAT(MustRead(0).processes,
              ElementsAre(ProcessUse{.pid = 11, .used_mib = 400, .kernel_time = 0.0},
                          ProcessUse{.pid = 12, .used_mib = 300, .mps_client = true},
                          ProcessUse{.pid = 13, .used_mib = 200, .mps_client = true}));
}

TEST_F(NvmlProcessesTest, ReportsKernelTimeSinceTheLastReading) {
  FakeNvmlGpu& gpu = nvml_->gpus[1];
  gpu.compute = {Process(11, 400), Process(12, 300)};
  gpu.samples = {{11, 1'000, 90, 0, 0, 0}, {11, 2'000, 50, 0, 0, 0}, {99, 2'000, 40, 0, 0, 0}};
  ASSERT_TRUE(probe_->Devices());
  const auto kernel_times = [this] {
    std::vector<std::optional<double>> times;
    for (const ProcessUse& use : MustRead(0).processes) times.push_back(use.kernel_time);
    return times;
  };
  EXPECT_THAT(kernel_times(), ElementsAre(0.5, 0.0)) << "newest samples; no sample means idle";
  EXPECT_THAT(kernel_times(), ElementsAre(0.0, 0.0)) << "no new samples: both were idle";
  gpu.utilization = 30;
  EXPECT_THAT(kernel_times(), ElementsAre(std::nullopt, std::nullopt))
      << "kernels ran, but the driver names no process";
  gpu.samples.push_back({12, 3'000, 30, 0, 0, 0});
  EXPECT_THAT(kernel_times(), ElementsAre(0.0, 0.3));
  gpu.samples.push_back({12, 4'000, 4'000, 0, 0, 0});
  EXPECT_THAT(kernel_times(), ElementsAre(0.0, std::nullopt)) << "4000 % is no share";
  for (std::uint32_t pid = 100; pid < 150; ++pid) gpu.samples.push_back({pid, 5'000, 1, 0, 0, 0});
  gpu.samples.push_back({11, 5'000, 20, 0, 0, 0});
  EXPECT_THAT(kernel_times(), ElementsAre(0.2, 0.0)) << "the list was longer than the buffer";
}

}  // namespace
}  // namespace carma::gpu

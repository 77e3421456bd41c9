#include "gpu/fake_nvml/fake_nvml.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

using namespace carma::gpu;
using namespace carma::gpu::nvml;

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Creates the GPUs described in the environment variable, for processes whose GPUs the test cannot
// set directly.
FakeNvml AtLoad() {
  FakeNvml fake;
  const char* const words = std::getenv(kFakeNvmlVariable);
  std::istringstream in(words != nullptr ? words : "");
  for (std::string word; in >> word;) {
    if (word == "gpu") fake.gpus.push_back(UsualFakeGpu());
    if (word == "remap-failed") fake.gpus.back().remap_failed = 1;
  }
  return fake;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) FakeNvml carma_fake_nvml = AtLoad();
}

namespace {

FakeNvml& Fake() {
  return carma_fake_nvml;
}

Return Listed(const std::map<std::string, Return>& errors, const char* function) {
  const auto found = errors.find(function);
  return found == errors.end() ? kSuccess : found->second;
}

Return Check(const char* function) {
  ++Fake().calls[function];
  if (!Fake().initialised) return kUninitialized;
  return Listed(Fake().errors, function);
}

// The low 16 bits of a handle hold the GPU's index plus one. The higher bits hold the instance's
// index plus one, or 0 for the whole GPU.
constexpr std::uintptr_t kInstanceUnit = 0x1'0000;
Device HandleOf(std::size_t gpu, std::size_t instance_plus_one = 0) {
  return reinterpret_cast<Device>(instance_plus_one * kInstanceUnit + gpu + 1);
}
FakeNvmlGpu& Gpu(Device device) {
  return Fake().gpus.at(reinterpret_cast<std::uintptr_t>(device) % kInstanceUnit - 1);
}
FakeNvmlInstance* Instance(Device device) {
  const std::uintptr_t number = reinterpret_cast<std::uintptr_t>(device) / kInstanceUnit;
  return number == 0 ? nullptr : &Gpu(device).instances.at(number - 1);
}

Return Check(const char* function, Device device) {
  if (const Return code = Check(function)) return code;
  const FakeNvmlInstance* instance = Instance(device);
  return Listed(instance ? instance->errors : Gpu(device).errors, function);
}
// Like a real driver, returns an error for values that only whole GPUs have.
Return CheckWhole(const char* function, Device device) {
  return Instance(device) ? kInvalidArgument : Check(function, device);
}

Return CopyText(const std::string& text, char* target, std::uint32_t size) {
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(target, text.c_str(), text.size() + 1);
  return kSuccess;
}

Return CopyList(std::vector<ProcessInfo>& list, FakeNvmlGpu& gpu, std::uint32_t* count,
                ProcessInfo* lines) {
  const auto needed = static_cast<std::uint32_t>(list.size());
  if (*count < needed) {
    *count = needed;
    while (lines == nullptr && gpu.late_processes > 0) {
      --gpu.late_processes;
      list.push_back({90'000u + static_cast<std::uint32_t>(gpu.late_processes), 1 << 20, 0, 0});
    }
    return kInsufficientSize;
  }
  *count = needed;
  std::copy(list.begin(), list.end(), lines);
  return kSuccess;
}

}  // namespace

FAKE_EXPORT Return nvmlInit_v2() {
  ++Fake().init_calls;
  const auto found = Fake().errors.find("nvmlInit_v2");
  if (found != Fake().errors.end()) return found->second;
  Fake().initialised = true;
  ++Fake().users;
  return kSuccess;
}
FAKE_EXPORT Return nvmlShutdown() {
  if (--Fake().users == 0) Fake().initialised = false;
  return Listed(Fake().errors, "nvmlShutdown");
}
FAKE_EXPORT const char* nvmlErrorString(Return code) {
  return code == kGpuIsLost ? "GPU is lost" : "some error";
}
FAKE_EXPORT Return nvmlDeviceGetCount_v2(std::uint32_t* count) {
  *count = static_cast<std::uint32_t>(Fake().gpus.size());
  return Check("nvmlDeviceGetCount_v2");
}
FAKE_EXPORT Return nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, Device* device) {
  *device = HandleOf(index);
  return Check("nvmlDeviceGetHandleByIndex_v2", *device);
}
FAKE_EXPORT Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  *device = nullptr;
  for (std::size_t i = 0; i < Fake().gpus.size(); ++i) {
    const FakeNvmlGpu& gpu = Fake().gpus[i];
    if (gpu.uuid == uuid) *device = HandleOf(i);
    for (std::size_t k = 0; k < gpu.instances.size(); ++k) {
      if (gpu.instances[k].uuid == uuid) *device = HandleOf(i, k + 1);
    }
  }
  return *device ? Check("nvmlDeviceGetHandleByUUID", *device) : kNotFound;
}
FAKE_EXPORT Return nvmlDeviceGetUUID(Device device, char* text, std::uint32_t size) {
  if (const Return code = Check("nvmlDeviceGetUUID", device)) return code;
  return CopyText(Instance(device) ? Instance(device)->uuid : Gpu(device).uuid, text, size);
}
FAKE_EXPORT Return nvmlDeviceGetName(Device device, char* text, std::uint32_t size) {
  if (const Return code = Check("nvmlDeviceGetName", device)) return code;
  return CopyText("Fake GPU", text, size);
}
FAKE_EXPORT Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  if (const Return code = Check("nvmlDeviceGetPciInfo_v3", device)) return code;
  return CopyText(Gpu(device).bus_id, info->bus_id, sizeof info->bus_id);
}
FAKE_EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  if (memory->version != StructVersion<MemoryV2>(2)) return kArgumentVersionMismatch;
  *memory = Instance(device) ? Instance(device)->memory : Gpu(device).memory;
  return Check("nvmlDeviceGetMemoryInfo_v2", device);
}
FAKE_EXPORT Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const MemoryV2& known = Instance(device) ? Instance(device)->memory : Gpu(device).memory;
  *memory = {known.total, known.free, known.used + known.reserved};
  return Check("nvmlDeviceGetMemoryInfo", device);
}
FAKE_EXPORT Return nvmlDeviceSetMemoryLimits_v1(Device device, SetMemoryLimits* limits) {
  if (const Return code = CheckWhole("nvmlDeviceSetMemoryLimits_v1", device)) return code;
  FakeNvmlLimit& kept = Gpu(device).memory_limits[limits->name_space];
  kept.soft = limits->soft_limit;
  kept.hard = limits->hard_limit;
  return kSuccess;
}
FAKE_EXPORT Return nvmlDeviceGetMemoryLimits_v1(Device device, GetMemoryLimits* limits) {
  if (const Return code = CheckWhole("nvmlDeviceGetMemoryLimits_v1", device)) return code;
  const FakeNvmlLimit kept = Gpu(device).memory_limits[limits->name_space];
  *limits = {limits->name_space, kept.soft, kept.hard, kept.used};
  return kSuccess;
}

FAKE_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                           ProcessInfo* lines) {
  if (const Return code = Check("nvmlDeviceGetComputeRunningProcesses_v3", device)) return code;
  FakeNvmlInstance* const instance = Instance(device);
  return CopyList(instance ? instance->compute : Gpu(device).compute, Gpu(device), count, lines);
}
FAKE_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, std::uint32_t* count,
                                                            ProcessInfo* lines) {
  if (const Return code = CheckWhole("nvmlDeviceGetGraphicsRunningProcesses_v3", device))
    return code;
  return CopyList(Gpu(device).graphics, Gpu(device), count, lines);
}
FAKE_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                              ProcessInfo* lines) {
  if (const Return code = CheckWhole("nvmlDeviceGetMPSComputeRunningProcesses_v3", device))
    return code;
  return CopyList(Gpu(device).mps, Gpu(device), count, lines);
}
FAKE_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  *utilization = {Gpu(device).utilization, 0};
  return CheckWhole("nvmlDeviceGetUtilizationRates", device);
}
FAKE_EXPORT Return nvmlDeviceGetPowerUsage(Device device, std::uint32_t* milliwatt) {
  *milliwatt = Gpu(device).power_mw;
  return CheckWhole("nvmlDeviceGetPowerUsage", device);
}
FAKE_EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device device, std::uint64_t* millijoule) {
  *millijoule = Gpu(device).energy_mj;
  return CheckWhole("nvmlDeviceGetTotalEnergyConsumption", device);
}
FAKE_EXPORT Return nvmlDeviceGetTemperature(Device device, std::uint32_t, std::uint32_t* celsius) {
  *celsius = Gpu(device).temperature;
  return CheckWhole("nvmlDeviceGetTemperature", device);
}
FAKE_EXPORT Return nvmlDeviceGetTemperatureV(Device device, Temperature* temperature) {
  if (temperature->version != StructVersion<Temperature>(1)) return kArgumentVersionMismatch;
  if (temperature->sensor != kTemperatureGpu) return kInvalidArgument;
  temperature->celsius = static_cast<std::int32_t>(Gpu(device).temperature);
  return CheckWhole("nvmlDeviceGetTemperatureV", device);
}
FAKE_EXPORT Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  support->supported = Gpu(device).gpm ? 1 : 0;
  return CheckWhole("nvmlGpmQueryDeviceSupport", device);
}
FAKE_EXPORT Return nvmlGpmSampleAlloc(GpmSample* sample) {
  if (const Return code = Check("nvmlGpmSampleAlloc")) return code;
  ++Fake().samples;
  *sample = reinterpret_cast<GpmSample>(new FakeNvmlGpu);
  return kSuccess;
}
FAKE_EXPORT Return nvmlGpmSampleFree(GpmSample sample) {
  --Fake().samples;
  delete reinterpret_cast<FakeNvmlGpu*>(sample);
  return Listed(Fake().errors, "nvmlGpmSampleFree");
}
// A sample stores the GPU's current metrics. The metrics of a pair of samples are those of the
// second sample.
FAKE_EXPORT Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  *reinterpret_cast<FakeNvmlGpu*>(sample) = Gpu(device);
  return CheckWhole("nvmlGpmSampleGet", device);
}
FAKE_EXPORT Return nvmlGpmMigSampleGet(Device device, std::uint32_t gpu_instance,
                                       GpmSample sample) {
  FakeNvmlGpu& sampled = *reinterpret_cast<FakeNvmlGpu*>(sample);
  sampled = Gpu(device);
  sampled.sm_percent = -1;
  for (const FakeNvmlInstance& instance : Gpu(device).instances) {
    if (instance.gpu_instance == gpu_instance) sampled.sm_percent = instance.sm_percent;
  }
  return CheckWhole("nvmlGpmMigSampleGet", device);
}
FAKE_EXPORT Return nvmlGpmMetricsGet(GpmMetricsGet* request) {
  if (request->version != kGpmVersion || request->metric_count == 0 ||
      request->metrics[0].metric_id != kGpmSmUtil || request->first == request->second) {
    return kInvalidArgument;
  }
  if (request->metric_count > 1 && Fake().gpm_lists != kSuccess) return Fake().gpm_lists;
  const FakeNvmlGpu& sampled = *reinterpret_cast<FakeNvmlGpu*>(request->second);
  for (std::uint32_t i = 0; i < request->metric_count; ++i) {
    GpmMetric& metric = request->metrics[i];
    const auto found = sampled.gpm_metrics.find(metric.metric_id);
    const bool is_sm = metric.metric_id == kGpmSmUtil;
    metric.result = is_sm || found != sampled.gpm_metrics.end() ? kSuccess : kNotSupported;
    if (metric.result == kSuccess) metric.value = is_sm ? sampled.sm_percent : found->second;
  }
  const Return code = Check("nvmlGpmMetricsGet");
  return code == kSuccess ? Listed(sampled.errors, "nvmlGpmMetricsGet") : code;
}

FAKE_EXPORT Return nvmlDeviceGetClockInfo(Device device, std::uint32_t type, std::uint32_t* mhz) {
  *mhz = type == kClockSm ? Gpu(device).sm_clock : Gpu(device).memory_clock;
  return CheckWhole("nvmlDeviceGetClockInfo", device);
}
FAKE_EXPORT Return nvmlDeviceGetTotalEccErrors(Device device, std::uint32_t error,
                                               std::uint32_t counter, std::uint64_t* errors) {
  if (counter != kEccSinceLoad) return kInvalidArgument;
  *errors = error == kEccCorrected ? Gpu(device).ecc_corrected : Gpu(device).ecc_uncorrected;
  return CheckWhole("nvmlDeviceGetTotalEccErrors", device);
}
FAKE_EXPORT Return nvmlDeviceGetRemappedRows(Device device, std::uint32_t* corrected,
                                             std::uint32_t* uncorrected, std::uint32_t* pending,
                                             std::uint32_t* failed) {
  *corrected = Gpu(device).remapped_corrected;
  *uncorrected = Gpu(device).remapped_uncorrected;
  *pending = Gpu(device).remap_pending;
  *failed = Gpu(device).remap_failed;
  return CheckWhole("nvmlDeviceGetRemappedRows", device);
}
FAKE_EXPORT Return nvmlDeviceGetComputeMode(Device device, std::uint32_t* mode) {
  *mode = Gpu(device).compute_mode;
  return CheckWhole("nvmlDeviceGetComputeMode", device);
}
FAKE_EXPORT Return nvmlDeviceGetNvLinkState(Device device, std::uint32_t link,
                                            std::uint32_t* active) {
  if (const Return code = CheckWhole("nvmlDeviceGetNvLinkState", device)) return code;
  if (link >= Gpu(device).links.size()) return kInvalidArgument;
  *active = Gpu(device).links[link].empty() ? 0 : 1;
  return kSuccess;
}
FAKE_EXPORT Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, std::uint32_t link,
                                                       PciInfo* info) {
  if (const Return code = CheckWhole("nvmlDeviceGetNvLinkRemotePciInfo_v2", device)) return code;
  if (link >= Gpu(device).links.size()) return kInvalidArgument;
  return CopyText(Gpu(device).links[link], info->bus_id, sizeof info->bus_id);
}
FAKE_EXPORT Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, std::uint32_t link,
                                                       std::uint32_t* type) {
  if (const Return code = CheckWhole("nvmlDeviceGetNvLinkRemoteDeviceType", device)) return code;
  if (link >= Gpu(device).links.size()) return kInvalidArgument;
  *type = Gpu(device).links[link] == "switch" ? kLinkToSwitch : 0;
  return kSuccess;
}
FAKE_EXPORT Return nvmlDeviceGetMigMode(Device device, std::uint32_t* current,
                                        std::uint32_t* pending) {
  *current = Gpu(device).mig_mode;
  *pending = Gpu(device).mig_pending.value_or(*current);
  return CheckWhole("nvmlDeviceGetMigMode", device);
}
FAKE_EXPORT Return nvmlDeviceGetMaxMigDeviceCount(Device device, std::uint32_t* count) {
  *count = Gpu(device).mig_slices;
  return CheckWhole("nvmlDeviceGetMaxMigDeviceCount", device);
}
// Instance numbers have gaps, as if some instances had been destroyed.
FAKE_EXPORT Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, std::uint32_t index,
                                                       Device* instance) {
  if (const Return code = CheckWhole("nvmlDeviceGetMigDeviceHandleByIndex", device)) return code;
  if (index == 0 || index > Gpu(device).instances.size()) return kNotFound;
  *instance =
      reinterpret_cast<Device>(reinterpret_cast<std::uintptr_t>(device) + index * kInstanceUnit);
  return Listed(Instance(*instance)->errors, "nvmlDeviceGetMigDeviceHandleByIndex");
}
FAKE_EXPORT Return nvmlDeviceGetGpuInstanceId(Device device, std::uint32_t* number) {
  if (!Instance(device)) return kInvalidArgument;
  *number = Instance(device)->gpu_instance;
  return Check("nvmlDeviceGetGpuInstanceId", device);
}
FAKE_EXPORT Return nvmlDeviceGetComputeInstanceId(Device device, std::uint32_t* number) {
  if (!Instance(device)) return kInvalidArgument;
  *number = Instance(device)->compute_instance;
  return Check("nvmlDeviceGetComputeInstanceId", device);
}
FAKE_EXPORT Return nvmlDeviceGetAttributes_v2(Device device, DeviceAttributes* attributes) {
  const FakeNvmlInstance* instance = Instance(device);
  if (!instance) return kInvalidArgument;
  *attributes = {};
  attributes->gpu_slices = instance->gpu_slices;
  attributes->compute_slices = instance->compute_slices;
  attributes->memory_mib = instance->memory.total >> 20;
  return Check("nvmlDeviceGetAttributes_v2", device);
}
FAKE_EXPORT Return nvmlDeviceGetGpuInstanceById(Device device, std::uint32_t number,
                                                GpuInstance* instance) {
  for (FakeNvmlInstance& each : Gpu(device).instances) {
    if (each.gpu_instance == number) *instance = reinterpret_cast<GpuInstance>(&each);
  }
  return CheckWhole("nvmlDeviceGetGpuInstanceById", device);
}
FAKE_EXPORT Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* info) {
  *info = {};
  info->profile_id = reinterpret_cast<FakeNvmlInstance*>(instance)->profile;
  return Check("nvmlGpuInstanceGetInfo");
}
FAKE_EXPORT Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization* samples,
                                                   std::uint32_t* count,
                                                   std::uint64_t newer_than_us) {
  if (const Return code = CheckWhole("nvmlDeviceGetProcessUtilization", device)) return code;
  std::vector<ProcessUtilization> told;
  for (const ProcessUtilization& sample : Gpu(device).samples) {
    if (sample.timestamp_us > newer_than_us) told.push_back(sample);
  }
  if (told.empty()) return kNotFound;
  const std::uint32_t room = std::exchange(*count, static_cast<std::uint32_t>(told.size()));
  if (room < told.size()) return kInsufficientSize;
  std::copy(told.begin(), told.end(), samples);
  return kSuccess;
}
FAKE_EXPORT Return nvmlDeviceGetFieldValues(Device device, std::int32_t count, FieldValue* values) {
  for (std::int32_t i = 0; i < count; ++i) {
    values[i].result = values[i].field_id == kFieldRecoveryAction ? kSuccess : kNotSupported;
    values[i].value_type = Gpu(device).recovery_type;
    values[i].value.count = Gpu(device).recovery_action;
  }
  return CheckWhole("nvmlDeviceGetFieldValues", device);
}

FAKE_EXPORT Return nvmlEventSetCreate(EventSet* set) {
  const Return code = Check("nvmlEventSetCreate");
  if (code != kSuccess) return code;
  ++Fake().event_sets;
  Fake().lost_in_set = false;
  *set = reinterpret_cast<EventSet>(&Fake().events);
  return kSuccess;
}
FAKE_EXPORT Return nvmlEventSetFree(EventSet) {
  --Fake().event_sets;
  return Listed(Fake().errors, "nvmlEventSetFree");
}
FAKE_EXPORT Return nvmlDeviceRegisterEvents(Device device, std::uint64_t, EventSet) {
  return CheckWhole("nvmlDeviceRegisterEvents", device);
}
FAKE_EXPORT Return nvmlEventSetWait_v2(EventSet, EventData* data, std::uint32_t) {
  if (const Return code = Check("nvmlEventSetWait_v2")) return code;
  if (Fake().lost_in_set) return kGpuIsLost;
  if (Fake().events.empty()) return kTimeout;
  const FakeNvmlEvent event = Fake().events.front();
  Fake().events.pop_front();
  *data = {HandleOf(event.gpu), event.type, event.data, event.gpu_instance, event.compute_instance};
  return kSuccess;
}

FAKE_EXPORT Return nvmlSystemGetDriverVersion(char* text, std::uint32_t size) {
  if (const Return code = Check("nvmlSystemGetDriverVersion")) return code;
  return CopyText("550.54.15", text, size);
}
FAKE_EXPORT Return nvmlSystemGetNVMLVersion(char* text, std::uint32_t size) {
  if (const Return code = Check("nvmlSystemGetNVMLVersion")) return code;
  return CopyText("12.550.54.15", text, size);
}
FAKE_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  *version = 12'040;
  return Check("nvmlSystemGetCudaDriverVersion_v2");
}

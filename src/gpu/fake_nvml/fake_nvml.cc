#include "gpu/fake_nvml/fake_nvml.h"

#include <algorithm>
#include <cstring>

using namespace carma::gpu;
using namespace carma::gpu::nvml;

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
__attribute__((visibility("default"))) FakeNvml carma_fake_nvml;
}

namespace {

FakeNvml& Fake() {
  return carma_fake_nvml;
}

Return Check(const char* function) {
  ++Fake().calls[function];
  if (!Fake().initialised) return kUninitialized;
  const auto found = Fake().errors.find(function);
  return found == Fake().errors.end() ? kSuccess : found->second;
}

// Handles are the index plus one.
FakeNvmlGpu& Gpu(Device device) {
  return Fake().gpus[reinterpret_cast<std::uintptr_t>(device) - 1];
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
  return kSuccess;
}
FAKE_EXPORT const char* nvmlErrorString(Return code) {
  return code == kGpuIsLost ? "GPU is lost" : "some error";
}
FAKE_EXPORT Return nvmlDeviceGetCount_v2(std::uint32_t* count) {
  *count = static_cast<std::uint32_t>(Fake().gpus.size());
  return Check("nvmlDeviceGetCount_v2");
}
FAKE_EXPORT Return nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, Device* device) {
  *device = reinterpret_cast<Device>(static_cast<std::uintptr_t>(index) + 1);
  return Check("nvmlDeviceGetHandleByIndex_v2");
}
FAKE_EXPORT Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  for (std::size_t i = 0; i < Fake().gpus.size(); ++i) {
    if (Fake().gpus[i].uuid == uuid) *device = reinterpret_cast<Device>(i + 1);
  }
  return Check("nvmlDeviceGetHandleByUUID");
}
FAKE_EXPORT Return nvmlDeviceGetUUID(Device device, char* text, std::uint32_t size) {
  return CopyText(Gpu(device).uuid, text, size);
}
FAKE_EXPORT Return nvmlDeviceGetName(Device, char* text, std::uint32_t size) {
  return CopyText("Fake GPU", text, size);
}
FAKE_EXPORT Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return CopyText(Gpu(device).bus_id, info->bus_id, sizeof info->bus_id);
}
FAKE_EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  if (memory->version != StructVersion<MemoryV2>(2)) return kArgumentVersionMismatch;
  *memory = Gpu(device).memory;
  return Check("nvmlDeviceGetMemoryInfo_v2");
}
FAKE_EXPORT Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const MemoryV2& known = Gpu(device).memory;
  *memory = {known.total, known.free, known.used + known.reserved};
  return Check("nvmlDeviceGetMemoryInfo");
}
FAKE_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                           ProcessInfo* lines) {
  if (const Return code = Check("nvmlDeviceGetComputeRunningProcesses_v3")) return code;
  return CopyList(Gpu(device).compute, Gpu(device), count, lines);
}
FAKE_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, std::uint32_t* count,
                                                            ProcessInfo* lines) {
  if (const Return code = Check("nvmlDeviceGetGraphicsRunningProcesses_v3")) return code;
  return CopyList(Gpu(device).graphics, Gpu(device), count, lines);
}
FAKE_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                              ProcessInfo* lines) {
  if (const Return code = Check("nvmlDeviceGetMPSComputeRunningProcesses_v3")) return code;
  return CopyList(Gpu(device).mps, Gpu(device), count, lines);
}
FAKE_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  *utilization = {Gpu(device).utilization, 0};
  return Check("nvmlDeviceGetUtilizationRates");
}
FAKE_EXPORT Return nvmlDeviceGetPowerUsage(Device device, std::uint32_t* milliwatt) {
  *milliwatt = Gpu(device).power_mw;
  return Check("nvmlDeviceGetPowerUsage");
}
FAKE_EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device device, std::uint64_t* millijoule) {
  *millijoule = Gpu(device).energy_mj;
  return Check("nvmlDeviceGetTotalEnergyConsumption");
}
FAKE_EXPORT Return nvmlDeviceGetTemperature(Device device, std::uint32_t, std::uint32_t* celsius) {
  *celsius = Gpu(device).temperature;
  return Check("nvmlDeviceGetTemperature");
}
FAKE_EXPORT Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  support->supported = Gpu(device).gpm ? 1 : 0;
  return kSuccess;
}
FAKE_EXPORT Return nvmlGpmSampleAlloc(GpmSample* sample) {
  ++Fake().samples;
  *sample = reinterpret_cast<GpmSample>(new FakeNvmlGpu);
  return kSuccess;
}
FAKE_EXPORT Return nvmlGpmSampleFree(GpmSample sample) {
  --Fake().samples;
  delete reinterpret_cast<FakeNvmlGpu*>(sample);
  return kSuccess;
}
// A sample holds what the GPU's metrics were set to; those of a pair are the second sample's.
FAKE_EXPORT Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  *reinterpret_cast<FakeNvmlGpu*>(sample) = Gpu(device);
  return Check("nvmlGpmSampleGet");
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
  return Check("nvmlGpmMetricsGet");
}

FAKE_EXPORT Return nvmlDeviceGetClockInfo(Device device, std::uint32_t type, std::uint32_t* mhz) {
  *mhz = type == kClockSm ? Gpu(device).sm_clock : Gpu(device).memory_clock;
  return Check("nvmlDeviceGetClockInfo");
}
FAKE_EXPORT Return nvmlDeviceGetTotalEccErrors(Device device, std::uint32_t error,
                                               std::uint32_t counter, std::uint64_t* errors) {
  if (counter != kEccSinceLoad) return kInvalidArgument;
  *errors = error == kEccCorrected ? Gpu(device).ecc_corrected : Gpu(device).ecc_uncorrected;
  return Check("nvmlDeviceGetTotalEccErrors");
}
FAKE_EXPORT Return nvmlDeviceGetRemappedRows(Device device, std::uint32_t* corrected,
                                             std::uint32_t* uncorrected, std::uint32_t* pending,
                                             std::uint32_t* failed) {
  *corrected = Gpu(device).remapped_corrected;
  *uncorrected = Gpu(device).remapped_uncorrected;
  *pending = Gpu(device).remap_pending;
  *failed = Gpu(device).remap_failed;
  return Check("nvmlDeviceGetRemappedRows");
}
FAKE_EXPORT Return nvmlDeviceGetComputeMode(Device device, std::uint32_t* mode) {
  *mode = Gpu(device).compute_mode;
  return Check("nvmlDeviceGetComputeMode");
}
FAKE_EXPORT Return nvmlDeviceGetMigMode(Device device, std::uint32_t* current,
                                        std::uint32_t* pending) {
  *current = *pending = Gpu(device).mig_mode;
  return Check("nvmlDeviceGetMigMode");
}
FAKE_EXPORT Return nvmlDeviceGetFieldValues(Device device, std::int32_t count, FieldValue* values) {
  for (std::int32_t i = 0; i < count; ++i) {
    values[i].result = values[i].field_id == kFieldRecoveryAction ? kSuccess : kNotSupported;
    values[i].value_type = Gpu(device).recovery_type;
    values[i].value.count = Gpu(device).recovery_action;
  }
  return Check("nvmlDeviceGetFieldValues");
}

FAKE_EXPORT Return nvmlEventSetCreate(EventSet* set) {
  const Return code = Check("nvmlEventSetCreate");
  if (code != kSuccess) return code;
  ++Fake().event_sets;
  *set = reinterpret_cast<EventSet>(&Fake().events);
  return kSuccess;
}
FAKE_EXPORT Return nvmlEventSetFree(EventSet) {
  --Fake().event_sets;
  return kSuccess;
}
FAKE_EXPORT Return nvmlDeviceRegisterEvents(Device, std::uint64_t, EventSet) {
  return Check("nvmlDeviceRegisterEvents");
}
FAKE_EXPORT Return nvmlEventSetWait_v2(EventSet, EventData* data, std::uint32_t) {
  if (const Return code = Check("nvmlEventSetWait_v2")) return code;
  if (Fake().events.empty()) return kTimeout;
  const FakeNvmlEvent event = Fake().events.front();
  Fake().events.pop_front();
  *data = {reinterpret_cast<Device>(event.gpu + 1), event.type, event.data, kNoValue32, kNoValue32};
  return kSuccess;
}

FAKE_EXPORT Return nvmlSystemGetDriverVersion(char* text, std::uint32_t size) {
  return CopyText("550.54.15", text, size);
}
FAKE_EXPORT Return nvmlSystemGetNVMLVersion(char* text, std::uint32_t size) {
  return CopyText("12.550.54.15", text, size);
}
FAKE_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  *version = 12'040;
  return Check("nvmlSystemGetCudaDriverVersion_v2");
}

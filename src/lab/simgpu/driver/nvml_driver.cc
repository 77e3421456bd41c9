// libcarma-simgpu.so implements the NVML functions that CARMA calls, for a simulated GPU server.
// The environment variable CARMA_SIMGPU_STATE names the server's state file. If that file is
// missing, calls fail as without a driver; if it is damaged, as with a driver of a different
// version. MIG, GPM and events have their own source files.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "lab/simgpu/driver/call.h"

using namespace carma;
using namespace carma::simgpu;
using namespace carma::simgpu::driver;

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// Shared by both versions of nvmlDeviceGetMemoryInfo. Applies the faults that affect memory values.
void FillMemory(const Call& call, MemoryV2& memory) {
  memory.total = static_cast<std::uint64_t>(call.Identity().total_mib) * kMib;
  memory.reserved = static_cast<std::uint64_t>(call.Identity().reserved_mib) * kMib;
  memory.used = static_cast<std::uint64_t>(call.look.used_mib) * kMib;
  if (Lies(call, FaultKind::kUsedOverTotal)) memory.used = memory.total + kMib;
  memory.free = memory.total - std::min(memory.total, memory.reserved + memory.used);
  if (Lies(call, FaultKind::kNoMemoryValue)) memory.used = memory.free = kNoValue64;
}

// A linear approximation of an air-cooled A100, for display only. It is not a thermal model.
std::uint32_t Celsius(const GpuLook& look) {
  return static_cast<std::uint32_t>(28 + 0.15 * look.power_w);
}

Return ListProcesses(const Call& call, core::SharingMethod sharing, std::uint32_t* count,
                     ProcessInfo* lines) {
  if (call.code != kSuccess) return call.code;
  thread_local std::vector<ProcessLook> found;
  const Result<Unit> listed = call.server->Processes(call.gpu, sharing, found);
  if (!listed) return FromError(listed.error());
  const auto needed = static_cast<std::uint32_t>(found.size());
  const bool fits = *count >= needed && (lines != nullptr || needed == 0);
  *count = needed;
  if (!fits) return kInsufficientSize;
  const bool told = !Lies(call, FaultKind::kNoPidMemory);
  for (std::uint32_t i = 0; i < needed; ++i) {
    const std::uint32_t instance = InstanceNumber(*call.server, found[i].gpu);
    lines[i] = {static_cast<std::uint32_t>(found[i].pid),
                told ? static_cast<std::uint64_t>(found[i].memory_mib) * kMib : kNoValue64,
                instance, instance == kNoValue32 ? kNoValue32 : kOnlyComputeInstance};
  }
  return kSuccess;
}

}  // namespace

NVML_EXPORT Return nvmlInit_v2() {
  Driver& driver = TheDriver();
  auto server = Server::Attach(base::GetEnv(kStateVariable));
  if (!server) return FromError(server.error());
  if (const Return code = FaultReturn(**server, kWholeDriver, "nvmlInit_v2"); code != kSuccess)
    return code;
  const std::scoped_lock lock(driver.mutex);
  ++driver.users;
  // If the server was replaced, the next nvmlInit finds the new server, as after reloading the
  // kernel module.
  driver.server = std::move(*server);
  return kSuccess;
}

NVML_EXPORT Return nvmlShutdown() {
  Driver& driver = TheDriver();
  const std::scoped_lock lock(driver.mutex);
  if (driver.users == 0) return kUninitialized;
  if (--driver.users == 0) driver.server.reset();
  return kSuccess;
}

NVML_EXPORT const char* nvmlErrorString(Return code) {
  return NvmlText(code);
}

NVML_EXPORT Return nvmlSystemGetDriverVersion(char* version, std::uint32_t size) {
  const Call call = Enter(version != nullptr);
  return call.code == kSuccess ? CopyText("999.0-carma-simulated", version, size) : call.code;
}

NVML_EXPORT Return nvmlSystemGetNVMLVersion(char* version, std::uint32_t size) {
  const Call call = Enter(version != nullptr);
  return call.code == kSuccess ? CopyText("12.999.0-carma-simulated", version, size) : call.code;
}

NVML_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  const Call call = Enter(version != nullptr);
  return call.code == kSuccess ? kNotSupported : call.code;  // CUDA cannot run here
}

NVML_EXPORT Return nvmlDeviceGetCount_v2(std::uint32_t* count) {
  const Call call = Enter(count != nullptr);
  if (call.code == kSuccess) *count = static_cast<std::uint32_t>(call.server->gpu_count());
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, Device* device) {
  const Call call = Enter(device != nullptr);
  if (call.code != kSuccess) return call.code;
  if (index >= static_cast<std::uint32_t>(call.server->gpu_count())) return kInvalidArgument;
  *device = HandleOf(static_cast<int>(index));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  const Call call = Enter(uuid && device);
  if (call.code != kSuccess) return call.code;
  const auto& places = call.server->places();
  const auto found = std::ranges::find(places, uuid, &GpuIdentity::uuid);
  if (found == places.end()) return kNotFound;
  *device = HandleOf(static_cast<int>(found - places.begin()));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetUUID(Device device, char* text, std::uint32_t size) {
  const Call call = Enter(device, text != nullptr, Takes::kBoth);
  return call.code == kSuccess ? CopyText(call.Identity().uuid, text, size) : call.code;
}

NVML_EXPORT Return nvmlDeviceGetName(Device device, char* text, std::uint32_t size) {
  const Call call = Enter(device, text != nullptr, Takes::kBoth);
  return call.code == kSuccess ? CopyText(call.Identity().nvml_name, text, size) : call.code;
}

NVML_EXPORT Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  const Call call = Enter(device, info != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::string& bus = call.Identity().pci;
  *info = {};
  info->bus = static_cast<std::uint32_t>(std::strtoul(bus.substr(9, 2).c_str(), nullptr, 16));
  // The legacy form of the bus id has a PCI domain of only four digits.
  std::memcpy(info->bus_id_legacy, bus.c_str() + 4, bus.size() - 4);
  return CopyText(bus, info->bus_id, sizeof info->bus_id);
}

namespace {

// Returns the GPU at the other end of a link, or null if there is no such link. An SXM GPU has one
// link to every other GPU of its type; PCIe GPUs have no links.
const GpuIdentity* OtherEnd(const Call& call, std::uint32_t link) {
  const GpuIdentity& own = call.Identity();
  if (own.nvml_name.find("SXM") == std::string::npos) return nullptr;
  for (const GpuIdentity& each : call.server->places()) {
    if (!each.parent_uuid.empty() || each.uuid == own.uuid || each.type != own.type) continue;
    if (link-- == 0) return &each;
  }
  return nullptr;
}

}  // namespace

NVML_EXPORT Return nvmlDeviceGetNvLinkState(Device device, std::uint32_t link,
                                            std::uint32_t* active) {
  const Call call = Enter(device, active != nullptr);
  if (call.code != kSuccess) return call.code;
  if (link >= kMostLinks || !OtherEnd(call, link)) return kInvalidArgument;
  *active = 1;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, std::uint32_t link,
                                                       PciInfo* info) {
  const Call call = Enter(device, info != nullptr);
  if (call.code != kSuccess) return call.code;
  const GpuIdentity* other = OtherEnd(call, link);
  if (!other) return kInvalidArgument;
  *info = {};
  return CopyText(other->pci, info->bus_id, sizeof info->bus_id);
}

NVML_EXPORT Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, std::uint32_t link,
                                                       std::uint32_t* type) {
  const Call call = Enter(device, type != nullptr);
  if (call.code != kSuccess) return call.code;
  if (!OtherEnd(call, link)) return kInvalidArgument;
  *type = 0;  // 0: a GPU
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const Call call = Read(device, memory != nullptr, Takes::kBoth);
  if (call.code != kSuccess) return call.code;
  MemoryV2 known{};
  FillMemory(call, known);
  const bool told = known.used != kNoValue64;
  *memory = {known.total, known.free, told ? known.used + known.reserved : kNoValue64};
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  const Call call = Read(device, memory != nullptr, Takes::kBoth);
  if (call.code != kSuccess) return call.code;
  if (memory->version != StructVersion<MemoryV2>(2)) return kArgumentVersionMismatch;
  FillMemory(call, *memory);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceSetMemoryLimits_v1(Device device, SetMemoryLimits* limits) {
  const Call call = Enter(device, limits != nullptr && limits->name_space);
  if (call.code != kSuccess) return call.code;
  const std::string group = limits->name_space;
  if (!call.server->LookAtGroup(call.gpu, group)) return kNotSupported;
  struct stat facts {};
  if (group.size() >= kGroupBytes) return kInvalidArgument;
  if (::stat(group.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return kNotFound;
  GroupLimit limit{};
  std::memcpy(limit.group, group.data(), group.size());
  limit.gpu = call.gpu;
  limit.soft_mib = static_cast<std::int64_t>(limits->soft_limit / kMib);
  limit.hard_mib = limits->hard_limit == kNoMemoryLimit
                       ? kNoLimitMib
                       : static_cast<std::int64_t>(limits->hard_limit / kMib);
  return call.server->LimitGroup(limit) ? kSuccess : kInsufficientResources;
}

NVML_EXPORT Return nvmlDeviceGetMemoryLimits_v1(Device device, GetMemoryLimits* limits) {
  const Call call = Enter(device, limits != nullptr && limits->name_space);
  if (call.code != kSuccess) return call.code;
  const auto look = call.server->LookAtGroup(call.gpu, limits->name_space);
  if (!look) return kNotSupported;
  limits->soft_limit = static_cast<std::uint64_t>(look->soft_mib) * kMib;
  limits->hard_limit = look->hard_mib == kNoLimitMib
                           ? kNoMemoryLimit
                           : static_cast<std::uint64_t>(look->hard_mib) * kMib;
  limits->current_used = static_cast<std::uint64_t>(look->used_mib) * kMib;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                           ProcessInfo* lines) {
  return ListProcesses(Enter(device, count != nullptr, Takes::kBoth), core::SharingMethod::kStreams,
                       count, lines);
}

NVML_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                              ProcessInfo* lines) {
  return ListProcesses(Enter(device, count != nullptr, Takes::kBoth), core::SharingMethod::kMps,
                       count, lines);
}

NVML_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, std::uint32_t* count,
                                                            ProcessInfo*) {
  const Call call = Enter(device, count != nullptr, Takes::kBoth);
  if (call.code == kSuccess) *count = 0;  // no process uses graphics
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  const Call call = Read(device, utilization != nullptr);
  if (call.code != kSuccess) return call.code;
  if (call.Identity().mig) return kNotSupported;
  // NVML reports whether a kernel was running, so the value is 100 % as soon as any task computes.
  *utilization = {call.look.sm_active > 0 ? 100u : 0u, 0};
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetPowerUsage(Device device, std::uint32_t* milliwatt) {
  const Call call = Read(device, milliwatt != nullptr);
  if (call.code == kSuccess)
    *milliwatt = static_cast<std::uint32_t>(std::lround(call.look.power_w * 1000));
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device device, std::uint64_t* millijoule) {
  const Call call = Read(device, millijoule != nullptr);
  if (call.code == kSuccess)
    *millijoule = static_cast<std::uint64_t>(call.look.totals.energy_j * 1000);
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetTemperature(Device device, std::uint32_t sensor,
                                            std::uint32_t* celsius) {
  const Call call = Read(device, celsius && sensor == kTemperatureGpu);
  if (call.code == kSuccess) *celsius = Celsius(call.look);
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetTemperatureV(Device device, Temperature* temperature) {
  const Call call = Read(device, temperature && temperature->sensor == kTemperatureGpu);
  if (call.code != kSuccess) return call.code;
  if (temperature->version != StructVersion<Temperature>(1)) return kArgumentVersionMismatch;
  temperature->celsius = static_cast<std::int32_t>(Celsius(call.look));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetClockInfo(Device device, std::uint32_t, std::uint32_t* mhz) {
  const Call call = Enter(device, mhz != nullptr);
  return call.code == kSuccess ? kNotSupported : call.code;  // clocks are not modelled
}

// A simulated GPU never breaks on its own; `carma-simgpu damage` sets the values that these calls
// return.
NVML_EXPORT Return nvmlDeviceGetTotalEccErrors(Device device, std::uint32_t error,
                                               std::uint32_t counter, std::uint64_t* errors) {
  const Call call = Read(device, errors && error <= kEccUncorrected && counter <= 1);
  if (call.code != kSuccess) return call.code;
  const Condition& condition = call.look.condition;
  *errors = static_cast<std::uint64_t>(error == kEccCorrected ? condition.ecc_corrected
                                                              : condition.ecc_uncorrected);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetRemappedRows(Device device, std::uint32_t* corrected,
                                             std::uint32_t* uncorrected, std::uint32_t* pending,
                                             std::uint32_t* failed) {
  const Call call = Read(device, corrected && uncorrected && pending && failed);
  if (call.code != kSuccess) return call.code;
  *corrected = 0;
  *uncorrected = static_cast<std::uint32_t>(call.look.condition.rows_remapped);
  *pending = call.look.condition.remap_pending;
  *failed = call.look.condition.remap_failed;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetComputeMode(Device device, std::uint32_t* mode) {
  const Call call = Enter(device, mode != nullptr);
  if (call.code == kSuccess) *mode = 0;  // 0: all processes may use the GPU
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetMigMode(Device device, std::uint32_t* current,
                                        std::uint32_t* pending) {
  const Call call = Enter(device, current && pending);
  if (call.code == kSuccess) *current = *pending = call.Identity().mig ? 1 : 0;
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization* lines,
                                                   std::uint32_t* count,
                                                   std::uint64_t newer_than_us) {
  const Call call = Read(device, count != nullptr);
  if (call.code != kSuccess) return call.code;
  if (call.Identity().mig) return kNotSupported;
  // Work of MPS clients is attributed to their server and is not listed for any process.
  thread_local std::vector<ProcessLook> found;
  const auto listed = call.server->Processes(call.gpu, core::SharingMethod::kStreams, found);
  if (!listed) return FromError(listed.error());
  std::erase_if(found, [](const auto& process) { return process.kernel_share <= 0; });
  const auto now_us = static_cast<std::uint64_t>(call.look.now_s * 1e6);
  if (found.empty() || now_us <= newer_than_us) return kNotFound;
  const auto needed = static_cast<std::uint32_t>(found.size());
  const bool fits = *count >= needed && lines != nullptr;
  *count = needed;
  if (!fits) return kInsufficientSize;
  for (const ProcessLook& process : found) {
    *lines++ = {.pid = static_cast<std::uint32_t>(process.pid),
                .timestamp_us = now_us,
                .sm = static_cast<std::uint32_t>(std::lround(100 * process.kernel_share))};
  }
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetFieldValues(Device device, std::int32_t count, FieldValue* values) {
  const Call call = Read(device, count > 0 && values);
  if (call.code != kSuccess) return call.code;
  for (std::int32_t i = 0; i < count; ++i) {
    values[i].result = values[i].field_id == kFieldRecoveryAction ? kSuccess : kNotSupported;
    values[i].value_type = kTypeUnsignedInt;
    values[i].value.count = static_cast<std::uint32_t>(call.look.condition.recovery_action);
  }
  return kSuccess;
}

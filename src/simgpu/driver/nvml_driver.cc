// libcarma-simgpu.so: the NVML functions that CARMA calls, answered from a simulated GPU server
// whose state file CARMA_SIMGPU_STATE names. No file: no driver. A broken one: a driver that does
// not match.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "gpu/nvml_abi.h"
#include "simgpu/state.h"

using namespace carma;
using namespace carma::gpu::nvml;
using simgpu::Fault;
using simgpu::FaultKind;
using simgpu::GpuLook;
using simgpu::kWholeDriver;
using simgpu::Server;

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
// Every GPU instance here has one compute instance, which is all of it.
constexpr std::uint32_t kOnlyComputeInstance = 0;
constexpr std::uint32_t kMaxInstances = 7;
constexpr std::uint32_t kGraphicsUtil = 1;  // GPM: percent of the span in which anything ran
constexpr auto kHangPoll = std::chrono::milliseconds(20);

// What the process has of the driver between nvmlInit and nvmlShutdown.
struct Driver {
  std::mutex mutex;
  int users = 0;
  std::shared_ptr<Server> server;  // shared: a call that hangs may outlive a shutdown
};

// Never destroyed, for other threads may still be calling while the process exits; and not on the
// heap, for the library may be unloaded and loaded again.
Driver& TheDriver() {
  alignas(Driver) static std::byte memory[sizeof(Driver)];
  static Driver* const driver = new (memory) Driver;
  return *driver;
}

std::shared_ptr<Server> TheServer() {
  const std::scoped_lock lock(TheDriver().mutex);
  return TheDriver().server;
}

// A handle is the address of its GPU's entry here, so that any other pointer can be told apart.
char handles[simgpu::kMaxPlaces];
char instance_handles[simgpu::kMaxPlaces];

Device HandleOf(int place) {
  return reinterpret_cast<Device>(&handles[place]);
}

Return FromError(const base::Error& error) {
  switch (error.code) {
    case base::ErrorCode::kCorrupt:
      return kLibRmVersionMismatch;
    case base::ErrorCode::kDenied:
      return kNoPermission;
    default:
      return kDriverNotLoaded;
  }
}

// The faults that concern every kind of answer; lies about single values are told where they are
// made.
Return FaultReturn(Server& server, std::int32_t gpu, const char* function) {
  while (true) {
    const base::Result<Fault> fault = server.FaultOn(gpu, function);
    if (!fault) return FromError(fault.error());
    switch (fault->kind) {
      case FaultKind::kVanish:
        return kDriverNotLoaded;
      case FaultKind::kLost:
        return kGpuIsLost;
      case FaultKind::kError:
        return fault->code;
      case FaultKind::kHang:
        std::this_thread::sleep_for(kHangPoll);
        continue;
      default:
        return kSuccess;
    }
  }
}

struct Call {
  Return code = kSuccess;
  std::shared_ptr<Server> server;
  int gpu = kWholeDriver;  // the place
  int Whole() const { return server->WholeGpu(gpu); }
  const simgpu::GpuIdentity& Identity() const {
    return server->places()[static_cast<std::size_t>(gpu)];
  }
  bool IsInstance() const { return !Identity().parent_uuid.empty(); }
};

// Which handles a function takes.
enum class Takes { kGpus, kInstances, kBoth };

// Entry of every call that is not about one GPU …
Call Enter(const char* function) {
  Call call;
  call.server = TheServer();
  call.code = call.server ? FaultReturn(*call.server, kWholeDriver, function) : kUninitialized;
  return call;
}

Return CheckTaken(const Call& call, Takes takes) {
  if (takes == Takes::kGpus && call.IsInstance()) return kNotSupported;
  if (takes == Takes::kInstances && !call.IsInstance()) return kInvalidArgument;
  return kSuccess;
}

// … and of those that are.
Call Enter(const char* function, Device device, bool arguments, Takes takes = Takes::kGpus) {
  Call call;
  call.server = TheServer();
  if (!call.server) {
    call.code = kUninitialized;
    return call;
  }
  const auto offset =
      reinterpret_cast<std::uintptr_t>(device) - reinterpret_cast<std::uintptr_t>(&handles[0]);
  if (!arguments || offset >= static_cast<std::size_t>(call.server->place_count())) {
    call.code = kInvalidArgument;
    return call;
  }
  call.gpu = static_cast<int>(offset);
  call.code = FaultReturn(*call.server, call.Whole(), function);
  if (call.code == kSuccess) call.code = CheckTaken(call, takes);
  return call;
}

bool Lies(const Call& call, FaultKind kind) {
  const base::Result<Fault> fault = call.server->FaultOn(call.Whole(), "");
  return fault && fault->kind == kind;
}

Return CopyText(const std::string& text, char* target, std::uint32_t size) {
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(target, text.c_str(), text.size() + 1);
  return kSuccess;
}

Return Look(const Call& call, GpuLook& look) {
  if (call.code != kSuccess) return call.code;
  const base::Result<GpuLook> now = call.server->Look(call.gpu);
  if (!now) return FromError(now.error());
  look = *now;
  return kSuccess;
}

Return LookCondition(const Call& call, simgpu::Condition& condition) {
  if (call.code != kSuccess) return call.code;
  const base::Result<simgpu::Condition> now = call.server->ConditionOf(call.gpu);
  if (!now) return FromError(now.error());
  condition = *now;
  return kSuccess;
}

// Memory as both versions of the call tell it, faults included.
Return LookMemory(const Call& call, MemoryV2& memory) {
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  memory.total = static_cast<std::uint64_t>(look.total_mib) * kMib;
  memory.reserved = static_cast<std::uint64_t>(look.reserved_mib) * kMib;
  memory.used = static_cast<std::uint64_t>(look.used_mib) * kMib;
  if (Lies(call, FaultKind::kUsedOverTotal)) memory.used = memory.total + kMib;
  memory.free = memory.total - std::min(memory.total, memory.reserved + memory.used);
  if (Lies(call, FaultKind::kNoMemoryValue)) memory.used = memory.free = kNoValue64;
  return kSuccess;
}

Return ListProcesses(const Call& call, sim::Sharing sharing, std::uint32_t* count,
                     ProcessInfo* lines) {
  if (call.code != kSuccess) return call.code;
  thread_local std::vector<simgpu::ProcessLook> found;
  const base::Result<base::Unit> listed = call.server->Processes(call.gpu, sharing, found);
  if (!listed) return FromError(listed.error());
  const auto needed = static_cast<std::uint32_t>(found.size());
  const bool fits = *count >= needed && (lines != nullptr || needed == 0);
  *count = needed;
  if (!fits) return kInsufficientSize;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& place = call.server->places()[static_cast<std::size_t>(found[i].gpu)];
    const bool part = !place.parent_uuid.empty();
    lines[i] = {static_cast<std::uint32_t>(found[i].pid),
                static_cast<std::uint64_t>(found[i].memory_mib) * kMib,
                part ? static_cast<std::uint32_t>(place.gpu_instance) : kNoValue32,
                part ? kOnlyComputeInstance : kNoValue32};
  }
  return kSuccess;
}

// A GPM sample: the integrals of one place at one moment.
struct Sample {
  bool taken = false;
  bool nan = false;
  double now_s = 0;
  double sm_s = 0;
  double busy_s = 0;
  double sm_active = 0;
};

Sample& SampleOf(GpmSample sample) {
  return *reinterpret_cast<Sample*>(sample);
}

double SmPercent(const Sample& first, const Sample& second) {
  if (second.nan) return std::numeric_limits<double>::quiet_NaN();
  const double span_s = second.now_s - first.now_s;
  // No time between them (or a reading that stands still): the activity of that moment.
  const double active = span_s > 0 ? (second.sm_s - first.sm_s) / span_s : second.sm_active;
  return 100 * std::clamp(active, 0.0, 1.0);
}

double BusyPercent(const Sample& first, const Sample& second) {
  const double span_s = second.now_s - first.now_s;
  const double busy = span_s > 0 ? (second.busy_s - first.busy_s) / span_s
                                 : static_cast<double>(second.sm_active > 0);
  return 100 * std::clamp(busy, 0.0, 1.0);
}

void FillMetric(GpmMetric& metric, const Sample& first, const Sample& second) {
  metric.result = kSuccess;
  metric.unit = "%";
  if (metric.metric_id == kGpmSmUtil) {
    metric.value = SmPercent(first, second);
    metric.short_name = "SM_UTIL";
    metric.long_name = "SM activity";
  } else if (metric.metric_id == kGraphicsUtil) {
    metric.value = BusyPercent(first, second);
    metric.short_name = "GRAPHICS_UTIL";
    metric.long_name = "time with a kernel running";
  } else {
    metric = {metric.metric_id, kNotSupported, 0, "", "", ""};
  }
}

Return TakeSample(const Call& call, GpmSample sample) {
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  SampleOf(sample) = {true,
                      Lies(call, FaultKind::kNanActivity),
                      look.now_s,
                      look.totals.sm_s,
                      look.totals.busy_s,
                      look.sm_active};
  return kSuccess;
}

// What an event set waits for. NVML's are not for several threads at once either.
struct Events {
  std::vector<int> gpus;       // whole ones
  std::uint64_t next_xid = 0;  // the number of the first event that it has not told
};

Events& EventsOf(EventSet set) {
  return *reinterpret_cast<Events*>(set);
}

EventData EventOf(const Server& server, const simgpu::XidEvent& xid) {
  const int whole = server.WholeGpu(xid.gpu);
  const auto& place = server.places()[static_cast<std::size_t>(xid.gpu)];
  const bool part = !place.parent_uuid.empty();
  return {HandleOf(whole), kEventXidCritical, static_cast<std::uint64_t>(xid.xid),
          part ? static_cast<std::uint32_t>(place.gpu_instance) : kNoValue32, kNoValue32};
}

// The next event that concerns the set; kTimeout: there is none yet.
Return NextEvent(Server& server, Events& events, EventData& event) {
  const auto xids = server.XidsFrom(events.next_xid);
  if (!xids) return FromError(xids.error());
  std::uint64_t number = xids->count - xids->events.size();
  for (const simgpu::XidEvent& xid : xids->events) {
    events.next_xid = ++number;
    const int whole = server.WholeGpu(xid.gpu);
    if (std::find(events.gpus.begin(), events.gpus.end(), whole) == events.gpus.end()) continue;
    event = EventOf(server, xid);
    return kSuccess;
  }
  events.next_xid = xids->count;
  return kTimeout;
}

// The place of an instance of this GPU.
std::optional<int> FindInstance(const Call& call, std::uint32_t gpu_instance) {
  for (int place = call.server->gpu_count(); place < call.server->place_count(); ++place) {
    const auto& identity = call.server->places()[static_cast<std::size_t>(place)];
    if (call.server->WholeGpu(place) == call.gpu &&
        static_cast<std::uint32_t>(identity.gpu_instance) == gpu_instance) {
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace

NVML_EXPORT Return nvmlInit_v2() {
  Driver& driver = TheDriver();
  const std::string path = base::GetEnv(simgpu::kStateVariable);
  if (path.empty()) return kDriverNotLoaded;
  auto server = Server::Attach(path);
  if (!server) return FromError(server.error());
  if (const Return code = FaultReturn(**server, kWholeDriver, "nvmlInit_v2"); code != kSuccess) {
    return code;
  }
  const std::scoped_lock lock(driver.mutex);
  ++driver.users;
  // A server that was replaced is found again by the next nvmlInit, as a reloaded module is.
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
  return simgpu::NvmlText(code);
}

NVML_EXPORT Return nvmlSystemGetDriverVersion(char* version, std::uint32_t size) {
  const Call call = Enter("nvmlSystemGetDriverVersion");
  if (call.code != kSuccess) return call.code;
  return version ? CopyText("999.0-carma-simulated", version, size) : kInvalidArgument;
}

NVML_EXPORT Return nvmlSystemGetNVMLVersion(char* version, std::uint32_t size) {
  const Call call = Enter("nvmlSystemGetNVMLVersion");
  if (call.code != kSuccess) return call.code;
  return version ? CopyText("12.999.0-carma-simulated", version, size) : kInvalidArgument;
}

NVML_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  const Call call = Enter("nvmlSystemGetCudaDriverVersion_v2");
  if (call.code != kSuccess) return call.code;
  return version ? kNotSupported : kInvalidArgument;  // nobody can run CUDA here
}

NVML_EXPORT Return nvmlDeviceGetCount_v2(std::uint32_t* count) {
  const Call call = Enter("nvmlDeviceGetCount_v2");
  if (call.code != kSuccess) return call.code;
  if (!count) return kInvalidArgument;
  *count = static_cast<std::uint32_t>(call.server->gpu_count());
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, Device* device) {
  const Call call = Enter("nvmlDeviceGetHandleByIndex_v2");
  if (call.code != kSuccess) return call.code;
  if (!device || index >= static_cast<std::uint32_t>(call.server->gpu_count())) {
    return kInvalidArgument;
  }
  *device = HandleOf(static_cast<int>(index));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  const Call call = Enter("nvmlDeviceGetHandleByUUID");
  if (call.code != kSuccess) return call.code;
  if (!uuid || !device) return kInvalidArgument;
  for (int g = 0; g < call.server->place_count(); ++g) {
    if (call.server->places()[static_cast<std::size_t>(g)].uuid != uuid) continue;
    *device = HandleOf(g);
    return kSuccess;
  }
  return kNotFound;
}

NVML_EXPORT Return nvmlDeviceGetUUID(Device device, char* text, std::uint32_t size) {
  const Call call = Enter("nvmlDeviceGetUUID", device, text != nullptr, Takes::kBoth);
  if (call.code != kSuccess) return call.code;
  return CopyText(call.Identity().uuid, text, size);
}

NVML_EXPORT Return nvmlDeviceGetName(Device device, char* text, std::uint32_t size) {
  const Call call = Enter("nvmlDeviceGetName", device, text != nullptr, Takes::kBoth);
  if (call.code != kSuccess) return call.code;
  return CopyText(call.Identity().nvml_name, text, size);
}

NVML_EXPORT Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  const Call call = Enter("nvmlDeviceGetPciInfo_v3", device, info != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::string& bus = call.Identity().pci;
  *info = {};
  info->bus = static_cast<std::uint32_t>(std::strtoul(bus.substr(9, 2).c_str(), nullptr, 16));
  std::memcpy(info->bus_id_legacy, bus.c_str() + 4, bus.size() - 4);  // the domain in four digits
  return CopyText(bus, info->bus_id, sizeof info->bus_id);
}

NVML_EXPORT Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const Call call = Enter("nvmlDeviceGetMemoryInfo", device, memory != nullptr, Takes::kBoth);
  MemoryV2 known{};
  if (const Return code = LookMemory(call, known); code != kSuccess) return code;
  const bool told = known.used != kNoValue64;
  *memory = {known.total, known.free, told ? known.used + known.reserved : kNoValue64};
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  const Call call = Enter("nvmlDeviceGetMemoryInfo_v2", device, memory != nullptr, Takes::kBoth);
  if (call.code != kSuccess) return call.code;
  if (memory->version != StructVersion<MemoryV2>(2)) return kArgumentVersionMismatch;
  return LookMemory(call, *memory);
}

NVML_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                           ProcessInfo* lines) {
  return ListProcesses(
      Enter("nvmlDeviceGetComputeRunningProcesses_v3", device, count != nullptr, Takes::kBoth),
      sim::Sharing::kStreams, count, lines);
}

NVML_EXPORT Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, std::uint32_t* count,
                                                              ProcessInfo* lines) {
  return ListProcesses(
      Enter("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, count != nullptr, Takes::kBoth),
      sim::Sharing::kMps, count, lines);
}

NVML_EXPORT Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, std::uint32_t* count,
                                                            ProcessInfo*) {
  const Call call =
      Enter("nvmlDeviceGetGraphicsRunningProcesses_v3", device, count != nullptr, Takes::kBoth);
  if (call.code == kSuccess) *count = 0;  // nobody draws
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  const Call call = Enter("nvmlDeviceGetUtilizationRates", device, utilization != nullptr);
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  if (call.Identity().mig) return kNotSupported;
  // "A kernel was running": all the time as soon as anybody computes.
  *utilization = {look.sm_active > 0 ? 100u : 0u, 0};
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetPowerUsage(Device device, std::uint32_t* milliwatt) {
  const Call call = Enter("nvmlDeviceGetPowerUsage", device, milliwatt != nullptr);
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  *milliwatt = static_cast<std::uint32_t>(std::lround(look.power_w * 1000));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device device, std::uint64_t* millijoule) {
  const Call call = Enter("nvmlDeviceGetTotalEnergyConsumption", device, millijoule != nullptr);
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  *millijoule = static_cast<std::uint64_t>(look.totals.energy_j * 1000);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetTemperature(Device device, std::uint32_t sensor,
                                            std::uint32_t* celsius) {
  const Call call = Enter("nvmlDeviceGetTemperature", device, celsius && sensor == kTemperatureGpu);
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  // No thermal model: a straight line that looks like an air-cooled A100, for screens.
  *celsius = static_cast<std::uint32_t>(28 + 0.15 * look.power_w);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetClockInfo(Device device, std::uint32_t, std::uint32_t* mhz) {
  const Call call = Enter("nvmlDeviceGetClockInfo", device, mhz != nullptr);
  return call.code == kSuccess ? kNotSupported : call.code;  // no model of clocks
}

// A simulated GPU never breaks by itself: carma-simgpu damage gives it what these calls tell.
NVML_EXPORT Return nvmlDeviceGetTotalEccErrors(Device device, std::uint32_t error,
                                               std::uint32_t counter, std::uint64_t* errors) {
  const Call call = Enter("nvmlDeviceGetTotalEccErrors", device,
                          errors && error <= kEccUncorrected && counter <= 1);
  simgpu::Condition condition;
  if (const Return code = LookCondition(call, condition); code != kSuccess) return code;
  const bool corrected = error == kEccCorrected;
  *errors =
      static_cast<std::uint64_t>(corrected ? condition.ecc_corrected : condition.ecc_uncorrected);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetRemappedRows(Device device, std::uint32_t* corrected,
                                             std::uint32_t* uncorrected, std::uint32_t* pending,
                                             std::uint32_t* failed) {
  const Call call =
      Enter("nvmlDeviceGetRemappedRows", device, corrected && uncorrected && pending && failed);
  simgpu::Condition condition;
  if (const Return code = LookCondition(call, condition); code != kSuccess) return code;
  *corrected = 0;
  *uncorrected = static_cast<std::uint32_t>(condition.rows_remapped);
  *pending = condition.remap_pending;
  *failed = condition.remap_failed;
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetComputeMode(Device device, std::uint32_t* mode) {
  const Call call = Enter("nvmlDeviceGetComputeMode", device, mode != nullptr);
  if (call.code == kSuccess) *mode = 0;  // everybody may use it
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetMigMode(Device device, std::uint32_t* current,
                                        std::uint32_t* pending) {
  const Call call = Enter("nvmlDeviceGetMigMode", device, current && pending);
  if (call.code == kSuccess) *current = *pending = call.Identity().mig ? 1 : 0;
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetMaxMigDeviceCount(Device device, std::uint32_t* count) {
  const Call call = Enter("nvmlDeviceGetMaxMigDeviceCount", device, count != nullptr);
  if (call.code == kSuccess) *count = call.Identity().mig ? kMaxInstances : 0;
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, std::uint32_t index,
                                                       Device* instance) {
  const Call call =
      Enter("nvmlDeviceGetMigDeviceHandleByIndex", device, instance && index < kMaxInstances);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, index + 1);
  if (!place) return kNotFound;
  *instance = HandleOf(*place);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device instance, Device* device) {
  const Call call = Enter("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", instance,
                          device != nullptr, Takes::kInstances);
  if (call.code == kSuccess) *device = HandleOf(call.Whole());
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetGpuInstanceId(Device instance, std::uint32_t* id) {
  const Call call = Enter("nvmlDeviceGetGpuInstanceId", instance, id != nullptr, Takes::kInstances);
  if (call.code == kSuccess) *id = static_cast<std::uint32_t>(call.Identity().gpu_instance);
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetComputeInstanceId(Device instance, std::uint32_t* id) {
  const Call call =
      Enter("nvmlDeviceGetComputeInstanceId", instance, id != nullptr, Takes::kInstances);
  if (call.code == kSuccess) *id = kOnlyComputeInstance;
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetAttributes_v2(Device instance, DeviceAttributes* attributes) {
  const Call call =
      Enter("nvmlDeviceGetAttributes_v2", instance, attributes != nullptr, Takes::kInstances);
  if (call.code != kSuccess) return call.code;
  const simgpu::GpuIdentity& identity = call.Identity();
  *attributes = {};
  attributes->multiprocessors = static_cast<std::uint32_t>(identity.sms);
  attributes->gpu_slices = static_cast<std::uint32_t>(identity.slices.compute);
  attributes->compute_slices = attributes->gpu_slices;
  attributes->memory_mib = static_cast<std::uint64_t>(identity.total_mib);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetGpuInstanceById(Device device, std::uint32_t id,
                                                GpuInstance* instance) {
  const Call call = Enter("nvmlDeviceGetGpuInstanceById", device, instance != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, id);
  if (!place) return kNotFound;
  *instance = reinterpret_cast<GpuInstance>(&instance_handles[*place]);
  return kSuccess;
}

NVML_EXPORT Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* info) {
  const auto place = reinterpret_cast<std::uintptr_t>(instance) -
                     reinterpret_cast<std::uintptr_t>(&instance_handles[0]);
  const bool known = place < std::size(handles);
  const Call call =
      Enter("nvmlGpuInstanceGetInfo", known ? HandleOf(static_cast<int>(place)) : nullptr,
            info != nullptr, Takes::kInstances);
  if (call.code != kSuccess) return call.code;
  const simgpu::GpuIdentity& identity = call.Identity();
  *info = {HandleOf(call.Whole()), static_cast<std::uint32_t>(identity.gpu_instance),
           static_cast<std::uint32_t>(identity.slices.profile), 0,
           static_cast<std::uint32_t>(identity.slices.memory)};
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization* lines,
                                                   std::uint32_t* count,
                                                   std::uint64_t newer_than_us) {
  const Call call = Enter("nvmlDeviceGetProcessUtilization", device, count != nullptr);
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  if (call.Identity().mig) return kNotSupported;
  // What comes through MPS is the server's work and told of nobody.
  thread_local std::vector<simgpu::ProcessLook> found;
  const auto listed = call.server->Processes(call.gpu, sim::Sharing::kStreams, found);
  if (!listed) return FromError(listed.error());
  std::erase_if(found,
                [](const simgpu::ProcessLook& process) { return process.kernel_share <= 0; });
  const auto now_us = static_cast<std::uint64_t>(look.now_s * 1e6);
  if (found.empty() || now_us <= newer_than_us) return kNotFound;
  const auto needed = static_cast<std::uint32_t>(found.size());
  const bool fits = *count >= needed && lines != nullptr;
  *count = needed;
  if (!fits) return kInsufficientSize;
  for (std::size_t i = 0; i < found.size(); ++i) {
    lines[i] = {static_cast<std::uint32_t>(found[i].pid),
                now_us,
                static_cast<std::uint32_t>(std::lround(100 * found[i].kernel_share)),
                0,
                0,
                0};
  }
  return kSuccess;
}

NVML_EXPORT Return nvmlEventSetCreate(EventSet* set) {
  const Call call = Enter("nvmlEventSetCreate");
  if (call.code != kSuccess) return call.code;
  if (!set) return kInvalidArgument;
  // What was announced before the set was made is no news to it.
  const auto xids = call.server->XidsFrom(std::numeric_limits<std::uint64_t>::max());
  if (!xids) return FromError(xids.error());
  *set = reinterpret_cast<EventSet>(new Events{{}, xids->count});
  return kSuccess;
}

NVML_EXPORT Return nvmlEventSetFree(EventSet set) {
  delete reinterpret_cast<Events*>(set);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceRegisterEvents(Device device, std::uint64_t types, EventSet set) {
  const Call call = Enter("nvmlDeviceRegisterEvents", device, set != nullptr);
  if (call.code != kSuccess) return call.code;
  if ((types & ~kEventXidCritical) != 0) return kNotSupported;
  EventsOf(set).gpus.push_back(call.gpu);
  return kSuccess;
}

NVML_EXPORT Return nvmlEventSetWait_v2(EventSet set, EventData* event, std::uint32_t timeout_ms) {
  const Call call = Enter("nvmlEventSetWait_v2");
  if (call.code != kSuccess) return call.code;
  if (!set || !event) return kInvalidArgument;
  const std::int64_t until_ns = base::BootTimeNs() + std::int64_t{timeout_ms} * 1'000'000;
  while (true) {
    const std::uint32_t generation = call.server->Generation();
    const Return code = NextEvent(*call.server, EventsOf(set), *event);
    const std::int64_t left_ns = until_ns - base::BootTimeNs();
    if (code != kTimeout || left_ns <= 0) return code;
    const double left_s = static_cast<double>(left_ns) / 1e9 * call.server->clock().time_scale;
    call.server->Wait(generation, call.server->Now() + left_s);
  }
}

NVML_EXPORT Return nvmlDeviceGetFieldValues(Device device, std::int32_t count, FieldValue* values) {
  const Call call = Enter("nvmlDeviceGetFieldValues", device, count > 0 && values);
  if (call.code != kSuccess) return call.code;
  simgpu::Condition condition;
  if (const Return code = LookCondition(call, condition); code != kSuccess) return code;
  for (std::int32_t i = 0; i < count; ++i) {
    values[i].result = values[i].field_id == kFieldRecoveryAction ? kSuccess : kNotSupported;
    values[i].value_type = kTypeUnsignedInt;
    values[i].value.count = static_cast<std::uint32_t>(condition.recovery_action);
  }
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  const Call call = Enter("nvmlGpmQueryDeviceSupport", device, support != nullptr);
  if (call.code != kSuccess) return call.code;
  if (support->version != kGpmVersion) return kArgumentVersionMismatch;
  support->supported = 1;
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleAlloc(GpmSample* sample) {
  const Call call = Enter("nvmlGpmSampleAlloc");
  if (call.code != kSuccess) return call.code;
  if (!sample) return kInvalidArgument;
  *sample = reinterpret_cast<GpmSample>(new Sample);
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleFree(GpmSample sample) {
  delete reinterpret_cast<Sample*>(sample);
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  return TakeSample(Enter("nvmlGpmSampleGet", device, sample != nullptr), sample);
}

NVML_EXPORT Return nvmlGpmMigSampleGet(Device device, std::uint32_t gpu_instance,
                                       GpmSample sample) {
  Call call = Enter("nvmlGpmMigSampleGet", device, sample != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, gpu_instance);
  if (!place) return kInvalidArgument;
  call.gpu = *place;
  return TakeSample(call, sample);
}

NVML_EXPORT Return nvmlGpmMetricsGet(GpmMetricsGet* request) {
  if (const Call call = Enter("nvmlGpmMetricsGet"); call.code != kSuccess) return call.code;
  if (!request || !request->first || !request->second) return kInvalidArgument;
  if (request->version != kGpmVersion) return kArgumentVersionMismatch;
  const Sample& first = SampleOf(request->first);
  const Sample& second = SampleOf(request->second);
  if (!first.taken || !second.taken || request->metric_count > kGpmMetricMax) {
    return kInvalidArgument;
  }
  for (std::uint32_t i = 0; i < request->metric_count; ++i) {
    FillMetric(request->metrics[i], first, second);
  }
  return kSuccess;
}

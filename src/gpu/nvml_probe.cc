#include "gpu/nvml_probe.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/process_id.h"
#include "gpu/nvml_abi.h"

namespace carma::gpu {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint32_t kMaxDevices = 1024;
constexpr std::uint32_t kMaxProcesses = 65'536;
// Counters are sampled one after the other, so a full GPU may read a hair above 100 %.
constexpr double kMaxPercent = 101;
constexpr std::uint32_t kMaxPowerMw = 100'000'000;

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// The functions of one library; null: it has none of that name.
struct Api {
  nvml::InitFn* init = nullptr;
  nvml::InitFn* shutdown = nullptr;
  nvml::ErrorStringFn* error_string = nullptr;
  nvml::GetCountFn* count = nullptr;
  nvml::GetByIndexFn* by_index = nullptr;
  nvml::GetByTextFn* by_uuid = nullptr;
  nvml::GetTextFn* uuid = nullptr;
  nvml::GetTextFn* name = nullptr;
  nvml::GetPciFn* pci = nullptr;
  nvml::GetMemoryV2Fn* memory_v2 = nullptr;
  nvml::GetMemoryFn* memory = nullptr;
  nvml::GetProcessesFn* compute = nullptr;
  nvml::GetProcessesFn* graphics = nullptr;
  nvml::GetProcessesFn* mps = nullptr;
  nvml::GetUtilizationFn* utilization = nullptr;
  nvml::GetPowerFn* power = nullptr;
  nvml::GetEnergyFn* energy = nullptr;
  nvml::GetTemperatureFn* temperature = nullptr;
  nvml::GpmSupportFn* gpm_support = nullptr;
  nvml::GpmAllocFn* gpm_alloc = nullptr;
  nvml::GpmFreeFn* gpm_free = nullptr;
  nvml::GpmGetFn* gpm_get = nullptr;
  nvml::GpmMetricsFn* gpm_metrics = nullptr;

  bool HasGpm() const { return gpm_support && gpm_alloc && gpm_free && gpm_get && gpm_metrics; }
};

template <class Fn>
void Resolve(void* library, const char* name, Fn*& target) {
  target = reinterpret_cast<Fn*>(::dlsym(library, name));
}

Api ResolveAll(void* library) {
  Api api;
  Resolve(library, "nvmlInit_v2", api.init);
  Resolve(library, "nvmlShutdown", api.shutdown);
  Resolve(library, "nvmlErrorString", api.error_string);
  Resolve(library, "nvmlDeviceGetCount_v2", api.count);
  Resolve(library, "nvmlDeviceGetHandleByIndex_v2", api.by_index);
  Resolve(library, "nvmlDeviceGetHandleByUUID", api.by_uuid);
  Resolve(library, "nvmlDeviceGetUUID", api.uuid);
  Resolve(library, "nvmlDeviceGetName", api.name);
  Resolve(library, "nvmlDeviceGetPciInfo_v3", api.pci);
  Resolve(library, "nvmlDeviceGetMemoryInfo_v2", api.memory_v2);
  Resolve(library, "nvmlDeviceGetMemoryInfo", api.memory);
  Resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", api.compute);
  Resolve(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", api.graphics);
  Resolve(library, "nvmlDeviceGetMPSComputeRunningProcesses_v3", api.mps);
  Resolve(library, "nvmlDeviceGetUtilizationRates", api.utilization);
  Resolve(library, "nvmlDeviceGetPowerUsage", api.power);
  Resolve(library, "nvmlDeviceGetTotalEnergyConsumption", api.energy);
  Resolve(library, "nvmlDeviceGetTemperature", api.temperature);
  Resolve(library, "nvmlGpmQueryDeviceSupport", api.gpm_support);
  Resolve(library, "nvmlGpmSampleAlloc", api.gpm_alloc);
  Resolve(library, "nvmlGpmSampleFree", api.gpm_free);
  Resolve(library, "nvmlGpmSampleGet", api.gpm_get);
  Resolve(library, "nvmlGpmMetricsGet", api.gpm_metrics);
  return api;
}

const char* MissingFunction(const Api& api) {
  if (!api.init) return "nvmlInit_v2";
  if (!api.count) return "nvmlDeviceGetCount_v2";
  if (!api.by_index) return "nvmlDeviceGetHandleByIndex_v2";
  if (!api.uuid) return "nvmlDeviceGetUUID";
  if (!api.memory_v2 && !api.memory) return "nvmlDeviceGetMemoryInfo";
  return nullptr;
}

// What the driver means by "this GPU or this account has no such value".
bool MeansAbsent(nvml::Return code) {
  return code == nvml::kNotSupported || code == nvml::kNoPermission ||
         code == nvml::kFunctionNotFound || code == nvml::kNoData ||
         code == nvml::kArgumentVersionMismatch;
}

bool MeansDriverGone(nvml::Return code) {
  return code == nvml::kUninitialized || code == nvml::kDriverNotLoaded;
}

struct DeviceState {
  DeviceInfo info;
  nvml::Device handle = nullptr;
  // The pair of GPM samples: the last one taken, and the one to take next. Null: no GPM.
  nvml::GpmSample previous = nullptr;
  nvml::GpmSample next = nullptr;
  bool primed = false;  // `previous` holds counters
  double last_energy_j = 0;
  std::vector<ProcessUse> processes;  // of the last reading
};

class NvmlProbe : public Probe {
 public:
  NvmlProbe(Library library, const Api& api) : library_(std::move(library)), api_(api) {}
  ~NvmlProbe() override { Shutdown(); }
  NvmlProbe(const NvmlProbe&) = delete;
  NvmlProbe& operator=(const NvmlProbe&) = delete;

  base::Result<std::vector<DeviceInfo>> Devices() override;
  base::Result<Reading> Read(std::size_t device, base::Time now) override;

 private:
  std::unexpected<base::Error> Failure(nvml::Return code, const std::string& doing);
  base::Result<base::Unit> Open();
  void Shutdown();
  base::Result<DeviceState> Describe(std::uint32_t index);
  base::Result<base::Unit> FindAgain();
  void PrepareGpm(DeviceState& device);
  void FreeGpm(DeviceState& device);

  base::Result<base::Unit> ReadMemory(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadMemoryV1(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadProcesses(DeviceState& device, Reading& reading);
  base::Result<base::Unit> AddList(const DeviceState& device, nvml::GetProcessesFn* function,
                                   const char* what, std::vector<ProcessUse>& all);
  base::Result<base::Unit> ReadSmActivity(DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadUtilization(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadPower(DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadTemperature(const DeviceState& device, Reading& reading);

  Library library_;
  Api api_;
  bool initialised_ = false;  // nvmlInit succeeded
  bool open_ = false;         // … and the driver has not gone since
  std::vector<DeviceState> devices_;
  std::vector<nvml::ProcessInfo> list_;  // reused: readings are frequent
  nvml::GpmMetricsGet metrics_{};        // 13 KiB, too much for every call
};

std::unexpected<base::Error> Corrupt(const DeviceState& device, const std::string& what) {
  return base::Fail(base::ErrorCode::kCorrupt, "GPU " + device.info.uuid + ": " + what);
}

// NVML's own text, and the reaction of CARMA: a lost GPU does not come back by asking again.
std::unexpected<base::Error> NvmlProbe::Failure(nvml::Return code, const std::string& doing) {
  if (MeansDriverGone(code)) open_ = false;
  const char* text = api_.error_string ? api_.error_string(code) : nullptr;
  const base::ErrorCode kind =
      code == nvml::kGpuIsLost ? base::ErrorCode::kNotFound : base::ErrorCode::kUnavailable;
  return base::Fail(kind, doing + ": " + (text ? text : "unnamed error") + " (NVML " +
                              std::to_string(code) + ")");
}

base::Result<base::Unit> NvmlProbe::Open() {
  if (open_) return base::Unit{};
  Shutdown();
  if (const nvml::Return code = api_.init(); code != nvml::kSuccess) {
    return Failure(code, "initialising NVML");
  }
  initialised_ = open_ = true;
  base::Result<base::Unit> found = FindAgain();
  if (!found) open_ = false;
  return found;
}

// Handles of an earlier life of the driver mean nothing to the present one.
base::Result<base::Unit> NvmlProbe::FindAgain() {
  for (DeviceState& device : devices_) {
    device.last_energy_j = 0;
    if (!api_.by_uuid) {
      return base::Fail(base::ErrorCode::kUnavailable,
                        "NVML was reloaded; GPUs must be listed again");
    }
    const nvml::Return code = api_.by_uuid(device.info.uuid.c_str(), &device.handle);
    if (code != nvml::kSuccess) return Failure(code, "finding GPU " + device.info.uuid + " again");
    PrepareGpm(device);
  }
  return base::Unit{};
}

// The library counts its users: every nvmlInit wants its nvmlShutdown, also after the driver went
// away.
void NvmlProbe::Shutdown() {
  for (DeviceState& device : devices_) FreeGpm(device);
  if (initialised_ && api_.shutdown) api_.shutdown();
  initialised_ = open_ = false;
}

void NvmlProbe::PrepareGpm(DeviceState& device) {
  if (!api_.HasGpm()) return;
  nvml::GpmSupport support{nvml::kGpmVersion, 0};
  if (api_.gpm_support(device.handle, &support) != nvml::kSuccess || support.supported == 0) return;
  if (api_.gpm_alloc(&device.previous) != nvml::kSuccess ||
      api_.gpm_alloc(&device.next) != nvml::kSuccess) {
    FreeGpm(device);
    return;
  }
  device.primed = api_.gpm_get(device.handle, device.previous) == nvml::kSuccess;
}

void NvmlProbe::FreeGpm(DeviceState& device) {
  if (device.previous) api_.gpm_free(device.previous);
  if (device.next) api_.gpm_free(device.next);
  device.previous = device.next = nullptr;
  device.primed = false;
}

base::Result<DeviceState> NvmlProbe::Describe(std::uint32_t index) {
  DeviceState device;
  const std::string where = "GPU " + std::to_string(index);
  nvml::Return code = api_.by_index(index, &device.handle);
  if (code != nvml::kSuccess) return Failure(code, where);
  char text[nvml::kUuidBytes] = {};
  code = api_.uuid(device.handle, text, sizeof text);
  if (code != nvml::kSuccess) return Failure(code, where + ": UUID");
  device.info.uuid.assign(text, strnlen(text, sizeof text));
  char name[nvml::kNameBytes] = {};
  if (api_.name && api_.name(device.handle, name, sizeof name) == nvml::kSuccess) {
    device.info.name.assign(name, strnlen(name, sizeof name));
  }
  nvml::PciInfo pci{};
  if (api_.pci && api_.pci(device.handle, &pci) == nvml::kSuccess) {
    device.info.pci.assign(pci.bus_id, strnlen(pci.bus_id, sizeof pci.bus_id));
  }
  Reading reading;
  if (base::Result<base::Unit> memory = ReadMemory(device, reading); !memory) {
    return std::unexpected(memory.error());
  }
  device.info.total_mib = reading.total_mib;
  device.info.reserved_mib = reading.reserved_mib;
  PrepareGpm(device);
  device.info.reports_sm_activity = device.previous != nullptr;
  return device;
}

base::Result<std::vector<DeviceInfo>> NvmlProbe::Devices() {
  // The list is made anew: a driver that was reloaded may show other GPUs.
  for (DeviceState& device : devices_) FreeGpm(device);
  devices_.clear();
  if (base::Result<base::Unit> open = Open(); !open) return std::unexpected(open.error());
  std::uint32_t count = 0;
  if (const nvml::Return code = api_.count(&count); code != nvml::kSuccess) {
    return Failure(code, "counting GPUs");
  }
  if (count > kMaxDevices) {
    return base::Fail(base::ErrorCode::kCorrupt, "NVML counts " + std::to_string(count) +
                                                     " GPUs, at most 1024 are believable");
  }
  for (std::uint32_t index = 0; index < count; ++index) {
    base::Result<DeviceState> device = Describe(index);
    if (!device) return std::unexpected(device.error());
    devices_.push_back(std::move(*device));
  }
  // NVML's own order is the order of the bus on every known driver; CARMA promises it to its users.
  std::stable_sort(
      devices_.begin(), devices_.end(),
      [](const DeviceState& a, const DeviceState& b) { return a.info.pci < b.info.pci; });
  std::vector<DeviceInfo> infos;
  infos.reserve(devices_.size());
  for (const DeviceState& device : devices_) infos.push_back(device.info);
  return infos;
}

base::Result<Reading> NvmlProbe::Read(std::size_t index, base::Time now) {
  if (base::Result<base::Unit> open = Open(); !open) return std::unexpected(open.error());
  if (index >= devices_.size()) {
    return base::Fail(base::ErrorCode::kNotFound, "no GPU " + std::to_string(index));
  }
  DeviceState& device = devices_[index];
  Reading reading;
  reading.taken = now;
  base::Result<base::Unit> step = ReadMemory(device, reading);
  if (step) step = ReadProcesses(device, reading);
  if (step) step = ReadSmActivity(device, reading);
  if (step) step = ReadUtilization(device, reading);
  if (step) step = ReadPower(device, reading);
  if (step) step = ReadTemperature(device, reading);
  if (!step) return std::unexpected(step.error());
  return reading;
}

base::Result<base::Unit> NvmlProbe::ReadMemory(const DeviceState& device, Reading& reading) {
  if (!api_.memory_v2) return ReadMemoryV1(device, reading);
  nvml::MemoryV2 memory{};
  memory.version = nvml::StructVersion<nvml::MemoryV2>(2);
  const nvml::Return code = api_.memory_v2(device.handle, &memory);
  if (MeansAbsent(code) && api_.memory) return ReadMemoryV1(device, reading);
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": memory");
  if (memory.total == 0 || memory.total == nvml::kNoValue64 || memory.used == nvml::kNoValue64) {
    return Corrupt(device, "memory is not told");
  }
  if (memory.reserved > memory.total || memory.used > memory.total - memory.reserved) {
    return Corrupt(device, "more memory in use than there is");
  }
  reading.total_mib = static_cast<std::int64_t>(memory.total / kMib);
  reading.reserved_mib = static_cast<std::int64_t>((memory.reserved + kMib - 1) / kMib);
  reading.used_mib = static_cast<std::int64_t>((memory.used + kMib - 1) / kMib);
  return base::Unit{};
}

// Drivers before R510 do not tell what they keep for themselves apart from what is used.
base::Result<base::Unit> NvmlProbe::ReadMemoryV1(const DeviceState& device, Reading& reading) {
  nvml::Memory memory{};
  const nvml::Return code = api_.memory(device.handle, &memory);
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": memory");
  if (memory.total == 0 || memory.total == nvml::kNoValue64 || memory.used == nvml::kNoValue64) {
    return Corrupt(device, "memory is not told");
  }
  if (memory.used > memory.total) return Corrupt(device, "more memory in use than there is");
  reading.total_mib = static_cast<std::int64_t>(memory.total / kMib);
  reading.reserved_mib = 0;
  reading.used_mib = static_cast<std::int64_t>((memory.used + kMib - 1) / kMib);
  return base::Unit{};
}

// Adds the lines of one pid within one list (MIG lists a process once per instance) …
void AddUse(std::vector<ProcessUse>& uses, pid_t pid, std::optional<std::int64_t> mib) {
  for (ProcessUse& use : uses) {
    if (use.pid != pid) continue;
    use.used_mib = use.used_mib && mib ? std::optional(*use.used_mib + *mib) : std::nullopt;
    return;
  }
  uses.push_back({pid, mib, false});
}

// … and takes the larger of what two lists say: a process that computes and draws stands in both,
// each time with all its memory.
void MergeUse(std::vector<ProcessUse>& all, const ProcessUse& use) {
  for (ProcessUse& known : all) {
    if (known.pid != use.pid) continue;
    known.used_mib = std::max(known.used_mib, use.used_mib);
    return;
  }
  all.push_back(use);
}

base::Result<base::Unit> NvmlProbe::AddList(const DeviceState& device,
                                            nvml::GetProcessesFn* function, const char* what,
                                            std::vector<ProcessUse>& all) {
  if (!function) return base::Unit{};
  std::uint32_t count = 0;
  nvml::Return code = function(device.handle, &count, nullptr);
  // New processes may start between the question "how many?" and the answer: leave room, ask again.
  while (code == nvml::kInsufficientSize) {
    if (count > kMaxProcesses) return Corrupt(device, "an absurd number of processes");
    const std::size_t room = std::max<std::size_t>(count + 8, list_.size());
    list_.resize(std::min<std::size_t>(room, kMaxProcesses + 8));
    const std::uint32_t asked = count;
    count = static_cast<std::uint32_t>(list_.size());
    code = function(device.handle, &count, list_.data());
    if (code == nvml::kInsufficientSize && count <= asked) count = asked + 64;
  }
  if (MeansAbsent(code)) return base::Unit{};
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": " + what);
  if (count > list_.size()) return Corrupt(device, "more processes than there was room for");
  std::vector<ProcessUse> uses;
  for (std::uint32_t i = 0; i < count; ++i) {
    const nvml::ProcessInfo& line = list_[i];
    std::optional<std::int64_t> mib;
    if (line.used_gpu_memory != nvml::kNoValue64) {
      mib = static_cast<std::int64_t>(line.used_gpu_memory / kMib) +
            (line.used_gpu_memory % kMib != 0 ? 1 : 0);
      if (*mib > device.info.total_mib) {
        return Corrupt(device, "pid " + std::to_string(line.pid) + " uses more than the GPU has");
      }
    }
    AddUse(uses, static_cast<pid_t>(line.pid), mib);
  }
  for (const ProcessUse& use : uses) MergeUse(all, use);
  return base::Unit{};
}

// The MPS server holds some memory of its own and is listed like a client. Asked once per process,
// for /proc is slow beside NVML; the kernel cuts names to 15 bytes.
bool IsMpsServer(pid_t pid, const std::vector<ProcessUse>& known) {
  for (const ProcessUse& use : known) {
    if (use.pid == pid) return use.mps_server;
  }
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  return stat && stat->command == "nvidia-cuda-mps";
}

base::Result<base::Unit> NvmlProbe::ReadProcesses(DeviceState& device, Reading& reading) {
  std::vector<ProcessUse>& all = reading.processes;
  base::Result<base::Unit> step = AddList(device, api_.compute, "compute processes", all);
  if (step) step = AddList(device, api_.graphics, "graphics processes", all);
  if (step) step = AddList(device, api_.mps, "MPS processes", all);
  if (!step) return step;
  for (ProcessUse& use : all) use.mps_server = IsMpsServer(use.pid, device.processes);
  device.processes = all;
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadSmActivity(DeviceState& device, Reading& reading) {
  if (!device.previous) return base::Unit{};
  nvml::Return code = api_.gpm_get(device.handle, device.next);
  if (code != nvml::kSuccess) {
    device.primed = false;
    if (MeansAbsent(code)) return base::Unit{};
    return Failure(code, "GPU " + device.info.uuid + ": GPM sample");
  }
  const bool pair = std::exchange(device.primed, true);
  std::swap(device.previous, device.next);  // `previous` is now the newest
  if (!pair) return base::Unit{};
  metrics_.version = nvml::kGpmVersion;
  metrics_.metric_count = 1;
  metrics_.first = device.next;
  metrics_.second = device.previous;
  metrics_.metrics[0] = {};
  metrics_.metrics[0].metric_id = nvml::kGpmSmUtil;
  code = api_.gpm_metrics(&metrics_);
  if (code == nvml::kSuccess) code = metrics_.metrics[0].result;
  if (MeansAbsent(code)) return base::Unit{};
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": SM activity");
  const double percent = metrics_.metrics[0].value;
  if (!(percent >= 0 && percent <= kMaxPercent)) {  // NaN fails both
    return Corrupt(device, "SM activity is no percentage");
  }
  reading.sm_active = std::min(percent / 100, 1.0);
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadUtilization(const DeviceState& device, Reading& reading) {
  if (!api_.utilization) return base::Unit{};
  nvml::Utilization utilization{};
  const nvml::Return code = api_.utilization(device.handle, &utilization);
  if (MeansAbsent(code)) return base::Unit{};
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": utilization");
  if (utilization.gpu > 100) return Corrupt(device, "utilization above 100 %");
  reading.utilization = utilization.gpu / 100.0;
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadPower(DeviceState& device, Reading& reading) {
  if (api_.power) {
    std::uint32_t milliwatt = 0;
    const nvml::Return code = api_.power(device.handle, &milliwatt);
    if (code != nvml::kSuccess && !MeansAbsent(code)) {
      return Failure(code, "GPU " + device.info.uuid + ": power");
    }
    if (code == nvml::kSuccess) {
      if (milliwatt > kMaxPowerMw) return Corrupt(device, "power above 100 kW");
      reading.power_w = milliwatt / 1000.0;
    }
  }
  if (!api_.energy) return base::Unit{};
  std::uint64_t millijoule = 0;
  const nvml::Return code = api_.energy(device.handle, &millijoule);
  if (MeansAbsent(code)) return base::Unit{};
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": energy");
  const double energy_j = static_cast<double>(millijoule) / 1000.0;
  if (millijoule == nvml::kNoValue64) return Corrupt(device, "energy is not told");
  if (energy_j < device.last_energy_j) {
    device.last_energy_j = energy_j;  // a reloaded driver counts from zero: complain once
    return Corrupt(device, "the energy counter went back");
  }
  device.last_energy_j = energy_j;
  reading.energy_j = energy_j;
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadTemperature(const DeviceState& device, Reading& reading) {
  if (!api_.temperature) return base::Unit{};
  std::uint32_t celsius = 0;
  const nvml::Return code = api_.temperature(device.handle, nvml::kTemperatureGpu, &celsius);
  if (MeansAbsent(code)) return base::Unit{};
  if (code != nvml::kSuccess) return Failure(code, "GPU " + device.info.uuid + ": temperature");
  if (celsius > 250) return Corrupt(device, "temperature above 250 °C");
  reading.temperature_c = celsius;
  return base::Unit{};
}

}  // namespace

base::Result<std::unique_ptr<Probe>> LoadNvmlProbe(const std::string& library) {
  Library handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) {
    const char* why = ::dlerror();
    return base::Fail(base::ErrorCode::kUnavailable,
                      "no NVML library: " + std::string(why ? why : library.c_str()));
  }
  const Api api = ResolveAll(handle.get());
  if (const char* missing = MissingFunction(api)) {
    return base::Fail(base::ErrorCode::kUnavailable, library + " is no NVML: it has no " + missing);
  }
  return std::unique_ptr<Probe>(new NvmlProbe(std::move(handle), api));
}

}  // namespace carma::gpu

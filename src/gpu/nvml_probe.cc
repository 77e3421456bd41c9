#include "gpu/nvml_probe.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/process_id.h"
#include "gpu/counters.h"
#include "gpu/nvml_library.h"
#include "gpu/sanity.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

constexpr std::uint32_t kMaxDevices = 1024;
constexpr std::uint32_t kMaxProcesses = 65'536;
// Events of one round, and kept for one device: a GPU that reports the same fault without end must
// not hold up the others.
constexpr int kMaxEvents = 64;

struct DeviceState {
  DeviceInfo info;
  nvml::Device handle = nullptr;
  // The pair of GPM samples: the last one taken, and the one to take next. Null: no GPM.
  nvml::GpmSample previous = nullptr;
  nvml::GpmSample next = nullptr;
  bool primed = false;  // `previous` holds counters
  // How many of Counters() are asked for: a library that refuses the list may know the first.
  std::size_t gpm_counters = Counters().size();
  Sanity sanity;
  std::vector<ProcessUse> processes;  // of the last reading
  Condition condition;
  std::optional<base::Time> condition_taken;
  std::vector<int> xids;  // announced and not yet read
};

// What follows from an error in place of one value.
enum class Weight {
  kDecides,  // the reading fails
  kTells,    // the value is absent, unless the GPU or the driver is gone
};

class NvmlProbe : public Probe {
 public:
  explicit NvmlProbe(NvmlLibrary library) : library_(std::move(library)), api_(library_.api) {}
  ~NvmlProbe() override { Shutdown(); }
  NvmlProbe(const NvmlProbe&) = delete;
  NvmlProbe& operator=(const NvmlProbe&) = delete;

  base::Result<std::vector<DeviceInfo>> Devices() override;
  base::Result<Reading> Read(std::size_t device, base::Time now) override;

 private:
  std::unexpected<base::Error> Failure(nvml::Return code, const std::string& doing);
  // True: the call gave its value; false: there is none.
  base::Result<bool> Given(const DeviceState& device, nvml::Return code, const char* what,
                           Weight weight);
  base::Result<base::Unit> Open();
  void Shutdown();
  base::Result<DeviceState> Describe(std::uint32_t index);
  base::Result<base::Unit> FindAgain();
  void PrepareGpm(DeviceState& device);
  void FreeGpm(DeviceState& device);
  void RegisterEvents();
  void FreeEvents();
  void TakeEvents();

  base::Result<base::Unit> ReadMemory(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadMemoryV1(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadProcesses(DeviceState& device, Reading& reading);
  base::Result<base::Unit> AddList(const DeviceState& device, nvml::GetProcessesFn* function,
                                   const char* what, std::vector<ProcessUse>& all);
  base::Result<base::Unit> ReadCounters(DeviceState& device, Reading& reading);
  base::Result<bool> AskCounters(DeviceState& device);
  nvml::Return AskMetrics(const DeviceState& device, std::size_t count);
  base::Result<base::Unit> ReadUtilization(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadPower(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadTemperature(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadClocks(const DeviceState& device, Reading& reading);
  base::Result<base::Unit> ReadCondition(DeviceState& device, Reading& reading);
  base::Result<Condition> AskCondition(const DeviceState& device);
  base::Result<base::Unit> AskEcc(const DeviceState& device, Condition& condition);
  base::Result<base::Unit> AskRecovery(const DeviceState& device, Condition& condition);

  NvmlLibrary library_;
  const NvmlApi& api_;
  bool initialised_ = false;  // nvmlInit succeeded
  bool open_ = false;         // … and the driver has not gone since
  nvml::EventSet events_ = nullptr;
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
  return NvmlFailure(api_, code, doing);
}

base::Result<bool> NvmlProbe::Given(const DeviceState& device, nvml::Return code, const char* what,
                                    Weight weight) {
  if (code == nvml::kSuccess) return true;
  const bool gone = code == nvml::kGpuIsLost || MeansDriverGone(code);
  if (!gone && (weight == Weight::kTells || MeansAbsent(code))) return false;
  return Failure(code, "GPU " + device.info.uuid + ": " + what);
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
    device.sanity.Forget();
    device.condition_taken.reset();
    if (!api_.by_uuid) {
      return base::Fail(base::ErrorCode::kUnavailable,
                        "NVML was reloaded; GPUs must be listed again");
    }
    const nvml::Return code = api_.by_uuid(device.info.uuid.c_str(), &device.handle);
    if (code != nvml::kSuccess) return Failure(code, "finding GPU " + device.info.uuid + " again");
    PrepareGpm(device);
  }
  RegisterEvents();
  return base::Unit{};
}

// The library counts its users: every nvmlInit wants its nvmlShutdown, also after the driver went
// away.
void NvmlProbe::Shutdown() {
  for (DeviceState& device : devices_) FreeGpm(device);
  FreeEvents();
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

// A new set each time: what was announced about GPUs of an earlier list is of no use.
void NvmlProbe::RegisterEvents() {
  FreeEvents();
  if (!api_.HasEvents() || devices_.empty()) return;
  if (api_.events_create(&events_) != nvml::kSuccess) {
    events_ = nullptr;
    return;
  }
  for (const DeviceState& device : devices_) {
    // A GPU or an account that may not has no events; all else is read as ever.
    (void)api_.events_register(device.handle, nvml::kEventXidCritical, events_);
  }
}

void NvmlProbe::FreeEvents() {
  if (events_) api_.events_free(events_);
  events_ = nullptr;
}

// Hands what was announced to the devices that it concerns. Waits for nothing.
void NvmlProbe::TakeEvents() {
  if (!events_) return;
  for (int taken = 0; taken < kMaxEvents; ++taken) {
    nvml::EventData event{};
    if (api_.events_wait(events_, &event, 0) != nvml::kSuccess) return;
    if ((event.type & nvml::kEventXidCritical) == 0) continue;
    for (DeviceState& device : devices_) {
      if (device.handle != event.device || device.xids.size() >= kMaxEvents) continue;
      device.xids.push_back(static_cast<int>(std::min<std::uint64_t>(event.data, 999)));
    }
  }
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
  if (base::Result<base::Unit> sane = device.sanity.Check(device.info.uuid, reading); !sane) {
    return std::unexpected(sane.error());
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
  FreeEvents();
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
  RegisterEvents();
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
  TakeEvents();
  base::Result<base::Unit> step = ReadMemory(device, reading);
  if (step) step = ReadProcesses(device, reading);
  if (step) step = ReadCounters(device, reading);
  if (step) step = ReadUtilization(device, reading);
  if (step) step = ReadPower(device, reading);
  if (step) step = ReadTemperature(device, reading);
  if (step) step = ReadClocks(device, reading);
  if (step) step = ReadCondition(device, reading);
  if (step) step = device.sanity.Check(device.info.uuid, reading);
  if (!step) return std::unexpected(step.error());
  reading.xids = std::exchange(device.xids, {});
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
  reading.total_mib = WholeMib(Bytes(memory.total)).value();
  reading.reserved_mib = StartedMib(Bytes(memory.reserved)).value();
  reading.used_mib = StartedMib(Bytes(memory.used)).value();
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
  reading.total_mib = WholeMib(Bytes(memory.total)).value();
  reading.reserved_mib = 0;
  reading.used_mib = StartedMib(Bytes(memory.used)).value();
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
  const base::Result<bool> given = Given(device, code, what, Weight::kDecides);
  if (!given) return std::unexpected(given.error());
  if (!*given) return base::Unit{};
  if (count > list_.size()) return Corrupt(device, "more processes than there was room for");
  std::vector<ProcessUse> uses;
  for (std::uint32_t i = 0; i < count; ++i) {
    const nvml::ProcessInfo& line = list_[i];
    std::optional<std::int64_t> mib;
    if (line.used_gpu_memory != nvml::kNoValue64) {
      mib = StartedMib(Bytes(line.used_gpu_memory)).value();
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

// Asks for the first so many metrics of the pair of samples.
nvml::Return NvmlProbe::AskMetrics(const DeviceState& device, std::size_t count) {
  metrics_.version = nvml::kGpmVersion;
  metrics_.metric_count = static_cast<std::uint32_t>(count);
  metrics_.first = device.next;
  metrics_.second = device.previous;
  for (std::size_t i = 0; i < count; ++i) {
    metrics_.metrics[i] = {};
    metrics_.metrics[i].metric_id = Counters()[i].gpm;
  }
  return api_.gpm_metrics(&metrics_);
}

// False: the driver has none. A library that stumbles over one of the others must not cost the
// activity that decisions rest upon.
base::Result<bool> NvmlProbe::AskCounters(DeviceState& device) {
  nvml::Return code = AskMetrics(device, device.gpm_counters);
  const bool gone = code == nvml::kGpuIsLost || MeansDriverGone(code);
  if (code != nvml::kSuccess && !gone && device.gpm_counters > 1) {
    code = AskMetrics(device, 1);
    if (code == nvml::kSuccess) device.gpm_counters = 1;
  }
  return Given(device, code, "SM activity", Weight::kDecides);
}

base::Result<base::Unit> NvmlProbe::ReadCounters(DeviceState& device, Reading& reading) {
  if (!device.previous) return base::Unit{};
  const nvml::Return sampled = api_.gpm_get(device.handle, device.next);
  const bool pair = std::exchange(device.primed, sampled == nvml::kSuccess);
  base::Result<bool> given = Given(device, sampled, "GPM sample", Weight::kDecides);
  if (!given) return std::unexpected(given.error());
  if (!*given) return base::Unit{};
  std::swap(device.previous, device.next);  // `previous` is now the newest
  if (!pair) return base::Unit{};
  given = AskCounters(device);
  if (given && *given)
    given = Given(device, metrics_.metrics[0].result, "SM activity", Weight::kDecides);
  if (!given) return std::unexpected(given.error());
  if (!*given) return base::Unit{};
  if (!StoreGpm(Counters()[0], metrics_.metrics[0].value, reading)) {
    return Corrupt(device, "SM activity is no percentage");
  }
  reading.counters = CounterSource::kGpm;
  for (std::size_t i = 1; i < device.gpm_counters; ++i) {
    const nvml::GpmMetric& metric = metrics_.metrics[i];
    if (metric.result == nvml::kSuccess) (void)StoreGpm(Counters()[i], metric.value, reading);
  }
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadUtilization(const DeviceState& device, Reading& reading) {
  if (!api_.utilization) return base::Unit{};
  nvml::Utilization utilization{};
  const base::Result<bool> given =
      Given(device, api_.utilization(device.handle, &utilization), "utilization", Weight::kDecides);
  if (!given) return std::unexpected(given.error());
  if (!*given) return base::Unit{};
  const std::optional<Fraction> busy = ToFraction(Percent(utilization.gpu));
  if (!busy) return Corrupt(device, "utilization above 100 %");
  reading.utilization = busy->value();
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadPower(const DeviceState& device, Reading& reading) {
  if (api_.power) {
    std::uint32_t milliwatts = 0;
    const base::Result<bool> given =
        Given(device, api_.power(device.handle, &milliwatts), "power", Weight::kDecides);
    if (!given) return std::unexpected(given.error());
    if (*given) reading.power_w = ToWatts(Milliwatts(milliwatts)).value();
  }
  if (!api_.energy) return base::Unit{};
  std::uint64_t millijoules = 0;
  const base::Result<bool> given =
      Given(device, api_.energy(device.handle, &millijoules), "energy", Weight::kDecides);
  if (!given) return std::unexpected(given.error());
  if (*given) reading.energy_j = ToJoules(Millijoules(millijoules)).value();
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadTemperature(const DeviceState& device, Reading& reading) {
  if (!api_.temperature) return base::Unit{};
  std::uint32_t celsius = 0;
  const base::Result<bool> given =
      Given(device, api_.temperature(device.handle, nvml::kTemperatureGpu, &celsius), "temperature",
            Weight::kDecides);
  if (!given) return std::unexpected(given.error());
  if (*given) reading.temperature_c = celsius;
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadClocks(const DeviceState& device, Reading& reading) {
  if (!api_.clock) return base::Unit{};
  constexpr double kFastestMhz = 100'000;
  for (const auto& [type, target] : {std::pair(nvml::kClockSm, &Reading::sm_clock_mhz),
                                     std::pair(nvml::kClockMemory, &Reading::memory_clock_mhz)}) {
    std::uint32_t mhz = 0;
    const base::Result<bool> given =
        Given(device, api_.clock(device.handle, type, &mhz), "clock", Weight::kTells);
    if (!given) return std::unexpected(given.error());
    if (*given && mhz <= kFastestMhz) reading.*target = mhz;
  }
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::ReadCondition(DeviceState& device, Reading& reading) {
  if (!device.condition_taken || reading.taken - *device.condition_taken >= kConditionSpan) {
    base::Result<Condition> condition = AskCondition(device);
    if (!condition) return std::unexpected(condition.error());
    device.condition = *condition;
    device.condition_taken = reading.taken;
  }
  reading.condition = device.condition;
  return base::Unit{};
}

base::Result<Condition> NvmlProbe::AskCondition(const DeviceState& device) {
  Condition condition;
  if (api_.remapped) {
    std::uint32_t corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    const base::Result<bool> given =
        Given(device, api_.remapped(device.handle, &corrected, &uncorrected, &pending, &failed),
              "remapped rows", Weight::kTells);
    if (!given) return std::unexpected(given.error());
    if (*given && corrected != nvml::kNoValue32 && uncorrected != nvml::kNoValue32) {
      condition.rows_remapped = std::int64_t{corrected} + uncorrected;
      condition.remap_pending = pending != 0;
      condition.remap_failed = failed != 0;
    }
  }
  if (api_.compute_mode) {
    std::uint32_t mode = 0;
    const base::Result<bool> given =
        Given(device, api_.compute_mode(device.handle, &mode), "compute mode", Weight::kTells);
    if (!given) return std::unexpected(given.error());
    if (*given && mode <= static_cast<std::uint32_t>(ComputeMode::kExclusiveProcess)) {
      condition.compute_mode = static_cast<ComputeMode>(mode);
    }
  }
  if (api_.mig_mode) {
    std::uint32_t current = 0, pending = 0;
    const base::Result<bool> given =
        Given(device, api_.mig_mode(device.handle, &current, &pending), "MIG mode", Weight::kTells);
    if (!given) return std::unexpected(given.error());
    if (*given && current <= 1) condition.mig = current == 1;
  }
  base::Result<base::Unit> step = AskEcc(device, condition);
  if (step) step = AskRecovery(device, condition);
  if (!step) return std::unexpected(step.error());
  return condition;
}

base::Result<base::Unit> NvmlProbe::AskEcc(const DeviceState& device, Condition& condition) {
  if (!api_.ecc) return base::Unit{};
  constexpr std::uint64_t kMostErrors = std::uint64_t{1} << 53;  // exact in JSON
  for (const auto& [kind, target] :
       {std::pair(nvml::kEccCorrected, &condition.ecc_corrected),
        std::pair(nvml::kEccUncorrected, &condition.ecc_uncorrected)}) {
    std::uint64_t errors = 0;
    const base::Result<bool> given =
        Given(device, api_.ecc(device.handle, kind, nvml::kEccSinceLoad, &errors), "ECC errors",
              Weight::kTells);
    if (!given) return std::unexpected(given.error());
    if (*given && errors <= kMostErrors) *target = static_cast<std::int64_t>(errors);
  }
  return base::Unit{};
}

base::Result<base::Unit> NvmlProbe::AskRecovery(const DeviceState& device, Condition& condition) {
  if (!api_.fields) return base::Unit{};
  nvml::FieldValue field{};
  field.field_id = nvml::kFieldRecoveryAction;
  nvml::Return code = api_.fields(device.handle, 1, &field);
  if (code == nvml::kSuccess) code = field.result;
  const base::Result<bool> given = Given(device, code, "recovery action", Weight::kTells);
  if (!given) return std::unexpected(given.error());
  if (*given && field.value_type == nvml::kTypeUnsignedInt) {
    const bool known =
        field.value.count <= static_cast<std::uint32_t>(RecoveryAction::kDrainAndReset);
    condition.recovery =
        known ? static_cast<RecoveryAction>(field.value.count) : RecoveryAction::kOther;
  }
  return base::Unit{};
}

}  // namespace

base::Result<std::unique_ptr<Probe>> LoadNvmlProbe(const std::string& library) {
  base::Result<NvmlLibrary> loaded = LoadNvml(library);
  if (!loaded) return std::unexpected(loaded.error());
  return std::make_unique<NvmlProbe>(std::move(*loaded));
}

base::Result<DriverVersions> AskDriverVersions(const std::string& library) {
  const base::Result<NvmlLibrary> loaded = LoadNvml(library);
  if (!loaded) return std::unexpected(loaded.error());
  const NvmlApi& api = loaded->api;
  if (const nvml::Return code = api.init(); code != nvml::kSuccess) {
    return NvmlFailure(api, code, "initialising NVML");
  }
  const auto text = [](nvml::GetVersionFn* function) {
    std::array<char, nvml::kVersionBytes> version{};
    if (!function || function(version.data(), version.size()) != nvml::kSuccess)
      return std::string();
    return std::string(version.data(), strnlen(version.data(), version.size()));
  };
  DriverVersions versions{
      .driver = text(api.driver_version), .nvml = text(api.nvml_version), .cuda = ""};
  std::int32_t cuda = 0;
  if (api.cuda_version && api.cuda_version(&cuda) == nvml::kSuccess && cuda > 0) {
    versions.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  }
  if (api.shutdown) api.shutdown();
  return versions;
}

}  // namespace carma::gpu

#include "gpu/nvml_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/try.h"
#include "gpu/counters.h"
#include "gpu/nvml_condition.h"
#include "gpu/nvml_devices.h"
#include "gpu/nvml_processes.h"
#include "gpu/sanity.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

// Maximum number of events that are read per round and stored per device. Without this limit, a GPU
// that repeats a fault endlessly would delay the other GPUs.
constexpr int kMaxEvents = 64;
constexpr const char* kOpening = "initialising NVML";

struct DeviceState : NvmlDevice {
  // The last GPM sample, and the sample to be taken next. Null without GPM.
  nvml::GpmSample previous = nullptr;
  nvml::GpmSample next = nullptr;
  bool primed = false;  // `previous` holds counters
  // How many of the Counters() are requested. A library may know only the first counters and reject
  // a longer list.
  std::size_t gpm_counters = Counters().size();
  Sanity sanity;
  NvmlProcesses processes;
  // Facts about the whole GPU. They are stored with the GPU's first device and read once for all
  // its instances.
  std::size_t keeper = 0;
  Condition condition;
  std::optional<base::Time> condition_taken;
  std::vector<int> xids;  // announced, but not in a reading yet
};

class LibraryProbe : public NvmlProbe {
 public:
  explicit LibraryProbe(NvmlLibrary library)
      : library_(std::move(library)), api_(library_.api), calls_(api_) {}
  ~LibraryProbe() override { Shutdown(); }
  LibraryProbe(const LibraryProbe&) = delete;
  LibraryProbe& operator=(const LibraryProbe&) = delete;

  ReadResult<std::vector<DeviceInfo>> Devices() override;
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  void SetListing(NvmlListing listing) override { listing_ = std::move(listing); }
  std::uint32_t NumberOf(std::size_t device) const override { return devices_.at(device).number; }

 private:
  ReadResult<bool> Given(const DeviceState& device, nvml::Return code, const char* what,
                         Weight weight) {
    return calls_.Given(device.info.uuid, code, what, weight);
  }
  Result<Unit> Open();
  void Shutdown();
  Result<Unit> FindAgain();
  void PrepareGpm(DeviceState& device);
  void FreeGpm(DeviceState& device);
  void RegisterEvents();
  void FreeEvents();
  void TakeEvents();
  void Announce(const nvml::EventData& event);
  nvml::Return TakeSample(const DeviceState& device, nvml::GpmSample sample) const;

  ReadResult<Unit> ReadProcesses(DeviceState& device, Reading& reading);
  ReadResult<Unit> ReadCounters(DeviceState& device, Reading& reading);
  ReadResult<bool> AskCounters(DeviceState& device);
  nvml::Return AskMetrics(const DeviceState& device, std::size_t count);
  ReadResult<Unit> ReadUtilization(const DeviceState& device, Reading& reading);
  ReadResult<Unit> ReadPower(const DeviceState& device, Reading& reading);
  ReadResult<Unit> ReadTemperature(const DeviceState& device, Reading& reading);
  ReadResult<Unit> ReadClocks(const DeviceState& device, Reading& reading);
  ReadResult<Unit> ReadCondition(DeviceState& device, Reading& reading);

  NvmlLibrary library_;
  const NvmlApi& api_;
  NvmlCalls calls_;
  NvmlListing listing_;
  bool initialised_ = false;  // nvmlInit succeeded
  bool open_ = false;         // the devices were also found; see also calls_.driver_gone()
  nvml::EventSet events_ = nullptr;
  std::vector<DeviceState> devices_;
  nvml::GpmMetricsGet metrics_{};  // 13 KiB, too large for a local variable
};

std::unexpected<ReadError> Corrupt(const DeviceState& device, std::string what) {
  return FailRead(ErrorCode::kCorrupt, std::move(what), device.info.uuid);
}

Result<Unit> LibraryProbe::Open() {
  if (open_ && !calls_.driver_gone()) return Unit{};
  Shutdown();
  calls_.DriverIsBack();
  if (const nvml::Return code = api_.init(); code != nvml::kSuccess)
    return calls_.Failure(code, kOpening);
  initialised_ = true;
  Result<Unit> found = FindAgain();
  open_ = found.has_value();
  return found;
}

Result<Unit> LibraryProbe::FindAgain() {
  // To find a GPU by its UUID, NVML visits all GPUs, even excluded ones.
  if (!devices_.empty() && !listing_.leave_out.empty())
    return Unavailable("NVML was reloaded; GPUs must be listed again");
  std::vector<NvmlDevice*> all;
  for (DeviceState& device : devices_) {
    device.sanity.Forget();
    device.processes.Forget();
    device.condition_taken.reset();
    all.push_back(&device);
  }
  CARMA_TRY(FindNvmlDevicesAgain(calls_, all));
  for (DeviceState& device : devices_) PrepareGpm(device);
  RegisterEvents();
  return Unit{};
}

void LibraryProbe::Shutdown() {
  for (DeviceState& device : devices_) FreeGpm(device);
  FreeEvents();
  if (initialised_ && api_.shutdown) api_.shutdown();
  initialised_ = open_ = false;
}

void LibraryProbe::PrepareGpm(DeviceState& device) {
  if (!device.handle || !api_.HasGpm() || (device.info.mig && !api_.gpm_mig_get)) return;
  nvml::GpmSupport support{nvml::kGpmVersion, 0};
  if (api_.gpm_support(device.board, &support) != nvml::kSuccess || support.supported == 0) return;
  if (api_.gpm_alloc(&device.previous) != nvml::kSuccess ||
      api_.gpm_alloc(&device.next) != nvml::kSuccess) {
    FreeGpm(device);
    return;
  }
  device.primed = TakeSample(device, device.previous) == nvml::kSuccess;
}

nvml::Return LibraryProbe::TakeSample(const DeviceState& device, nvml::GpmSample sample) const {
  return device.info.mig ? api_.gpm_mig_get(device.board, device.GpuInstance(), sample)
                         : api_.gpm_get(device.handle, sample);
}

void LibraryProbe::FreeGpm(DeviceState& device) {
  if (device.previous) api_.gpm_free(device.previous);
  if (device.next) api_.gpm_free(device.next);
  device.previous = device.next = nullptr;
  device.primed = false;
}

// Replaces the event set to drop events about the GPUs of an earlier list.
void LibraryProbe::RegisterEvents() {
  FreeEvents();
  if (!api_.HasEvents() || devices_.empty()) return;
  if (api_.events_create(&events_) != nvml::kSuccess) {
    events_ = nullptr;
    return;
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i].board || devices_[i].keeper != i) continue;
    // If this fails (no support or permission), the GPU reports no events but is read as usual.
    (void)api_.events_register(devices_[i].board, nvml::kEventXidCritical, events_);
  }
}

void LibraryProbe::FreeEvents() {
  if (events_) api_.events_free(events_);
  events_ = nullptr;
}

// Reads all pending events without waiting.
void LibraryProbe::TakeEvents() {
  for (int taken = 0; events_ && taken < kMaxEvents; ++taken) {
    nvml::EventData event{};
    const nvml::Return code = api_.events_wait(events_, &event, 0);
    // An event set with a lost GPU reports nothing for its other GPUs. The new set omits the lost
    // GPU, because it can no longer be registered.
    if (code == nvml::kGpuIsLost) return RegisterEvents();
    if (code != nvml::kSuccess) return;
    if ((event.type & nvml::kEventXidCritical) != 0) Announce(event);
  }
}

// Assigns the event to the instance named in the event, or to all devices of the GPU if no instance
// is named.
void LibraryProbe::Announce(const nvml::EventData& event) {
  const auto named = [&event](const DeviceState& device) {
    return device.GpuInstance() == event.gpu_instance &&
           (event.compute_instance == nvml::kNoValue32 ||
            event.compute_instance == device.ComputeInstance());
  };
  const auto on_board = [&event](const DeviceState& device) {
    return device.board && (device.board == event.device || device.handle == event.device);
  };
  const bool any_named = std::ranges::any_of(
      devices_, [&](const DeviceState& device) { return on_board(device) && named(device); });
  for (DeviceState& device : devices_) {
    if (!on_board(device) || (any_named && !named(device))) continue;
    if (device.xids.size() >= kMaxEvents) continue;
    device.xids.push_back(static_cast<int>(std::min<std::uint64_t>(event.data, 999)));
  }
}

ReadResult<std::vector<DeviceInfo>> LibraryProbe::Devices() {
  // The library knows only the GPUs that existed when it was initialised, so a new list requires
  // initialising it again.
  Shutdown();
  devices_.clear();
  CARMA_TRY(Open());
  std::vector<NvmlDevice> found = CARMA_TRY(ListNvmlDevices(calls_, listing_));
  std::vector<DeviceInfo> infos;
  devices_.reserve(found.size());
  for (NvmlDevice& each : found) {
    DeviceState device;
    static_cast<NvmlDevice&>(device) = std::move(each);
    PrepareGpm(device);
    device.info.reports_sm_activity = device.previous != nullptr;
    const bool same_board = !devices_.empty() && device.board == devices_.back().board;
    device.keeper = same_board ? devices_.back().keeper : devices_.size();
    infos.push_back(device.info);
    devices_.push_back(std::move(device));
  }
  RegisterEvents();
  return infos;
}

ReadResult<Reading> LibraryProbe::Read(std::size_t index, base::Time now) {
  CARMA_TRY(Open());
  if (index >= devices_.size()) return NotFound("no GPU {}", index);
  TakeEvents();
  DeviceState& device = devices_[index];
  if (const DeviceTrouble& trouble = device.info.trouble; !trouble.empty())
    return FailRead(ErrorCode::kNotFound, trouble.text, trouble.gpu);
  if (!device.handle)
    return NotFound("GPU {} was not found when the driver came back", device.info.uuid);
  Reading reading;
  reading.taken = now;
  CARMA_TRY(ReadNvmlMemory(calls_, device.handle, device.info.uuid, reading));
  CARMA_TRY(ReadCounters(device, reading));
  CARMA_TRY(ReadUtilization(device, reading));
  CARMA_TRY(ReadProcesses(device, reading));
  CARMA_TRY(ReadPower(device, reading));
  CARMA_TRY(ReadTemperature(device, reading));
  CARMA_TRY(ReadClocks(device, reading));
  CARMA_TRY(ReadCondition(device, reading));
  CARMA_TRY(device.sanity.Check(device.info.uuid, reading));
  reading.xids = std::exchange(device.xids, {});
  return reading;
}

ReadResult<Unit> LibraryProbe::ReadProcesses(DeviceState& device, Reading& reading) {
  CARMA_TRY(device.processes.List(calls_, device, reading));
  device.processes.AddGroups(api_, device, reading.processes);
  return device.processes.AddKernelTime(calls_, device, reading.utilization, reading.processes);
}

// Reads the first `count` metrics from the pair of samples.
nvml::Return LibraryProbe::AskMetrics(const DeviceState& device, std::size_t count) {
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

// Reads the counters. Returns false if the driver has no counters. Decisions depend on SM activity,
// so it must be read even if another counter fails.
ReadResult<bool> LibraryProbe::AskCounters(DeviceState& device) {
  nvml::Return code = AskMetrics(device, device.gpm_counters);
  const bool gone = code == nvml::kGpuIsLost || MeansDriverGone(code);
  if (code != nvml::kSuccess && !gone && device.gpm_counters > 1) {
    code = AskMetrics(device, 1);
    if (code == nvml::kSuccess) device.gpm_counters = 1;
  }
  return Given(device, code, "SM activity", Weight::kDecides);
}

ReadResult<Unit> LibraryProbe::ReadCounters(DeviceState& device, Reading& reading) {
  if (!device.previous) return Unit{};
  const nvml::Return sampled = TakeSample(device, device.next);
  const bool pair = std::exchange(device.primed, sampled == nvml::kSuccess);
  if (!CARMA_TRY(Given(device, sampled, "GPM sample", Weight::kDecides))) return Unit{};
  std::swap(device.previous, device.next);  // `previous` is now the newest sample
  if (!pair) return Unit{};
  if (!CARMA_TRY(AskCounters(device))) return Unit{};
  const nvml::Return active = metrics_.metrics[0].result;
  if (!CARMA_TRY(Given(device, active, "SM activity", Weight::kDecides))) return Unit{};
  if (!StoreGpm(Counters()[0], metrics_.metrics[0].value, reading))
    return Corrupt(device, "SM activity is not a percentage");
  reading.counters = CounterSource::kGpm;
  for (std::size_t i = 1; i < device.gpm_counters; ++i) {
    const nvml::GpmMetric& metric = metrics_.metrics[i];
    if (metric.result == nvml::kSuccess) (void)StoreGpm(Counters()[i], metric.value, reading);
  }
  return Unit{};
}

ReadResult<Unit> LibraryProbe::ReadUtilization(const DeviceState& device, Reading& reading) {
  if (!api_.utilization || device.info.mig) return Unit{};  // not reported for instances
  nvml::Utilization utilization{};
  const bool given = CARMA_TRY(Given(device, api_.utilization(device.handle, &utilization),
                                     "utilization", Weight::kDecides));
  if (!given) return Unit{};
  const std::optional<Fraction> busy = ToFraction(Percent(utilization.gpu));
  if (!busy) return Corrupt(device, "utilization above 100 %");
  reading.utilization = busy->value();
  return Unit{};
}

// Power is measured only for the whole GPU. It is reported for the first instance so that sums over
// all devices are correct.
ReadResult<Unit> LibraryProbe::ReadPower(const DeviceState& device, Reading& reading) {
  if (!device.leads) return Unit{};
  if (api_.power) {
    std::uint32_t milliwatts = 0;
    const bool given =
        CARMA_TRY(Given(device, api_.power(device.board, &milliwatts), "power", Weight::kDecides));
    if (given) reading.power_w = ToWatts(Milliwatts(milliwatts)).value();
  }
  if (!api_.energy) return Unit{};
  std::uint64_t millijoules = 0;
  const bool given =
      CARMA_TRY(Given(device, api_.energy(device.board, &millijoules), "energy", Weight::kDecides));
  if (given) reading.energy_j = ToJoules(Millijoules(millijoules)).value();
  return Unit{};
}

ReadResult<Unit> LibraryProbe::ReadTemperature(const DeviceState& device, Reading& reading) {
  std::uint32_t celsius = 0;
  nvml::Return code = api_.temperature
                          ? api_.temperature(device.board, nvml::kTemperatureGpu, &celsius)
                          : nvml::kFunctionNotFound;
  // Falls back to the newer call if the library lacks the old one, which NVML 13 deprecates.
  if (MeansAbsent(code) && api_.temperature_v) {
    nvml::Temperature temperature{nvml::StructVersion<nvml::Temperature>(1), nvml::kTemperatureGpu,
                                  0};
    code = api_.temperature_v(device.board, &temperature);
    celsius = static_cast<std::uint32_t>(std::max(temperature.celsius, 0));
  }
  const bool given = CARMA_TRY(Given(device, code, "temperature", Weight::kDecides));
  if (given) reading.temperature_c = celsius;
  return Unit{};
}

ReadResult<Unit> LibraryProbe::ReadClocks(const DeviceState& device, Reading& reading) {
  if (!api_.clock) return Unit{};
  constexpr double kFastestMhz = 100'000;
  for (const auto& [type, target] : {std::pair(nvml::kClockSm, &Reading::sm_clock_mhz),
                                     std::pair(nvml::kClockMemory, &Reading::memory_clock_mhz)}) {
    std::uint32_t mhz = 0;
    const bool given =
        CARMA_TRY(Given(device, api_.clock(device.board, type, &mhz), "clock", Weight::kTells));
    if (given && mhz <= kFastestMhz) reading.*target = mhz;
  }
  return Unit{};
}

ReadResult<Unit> LibraryProbe::ReadCondition(DeviceState& device, Reading& reading) {
  DeviceState& keeper = devices_[device.keeper];
  if (!keeper.condition_taken || reading.taken - *keeper.condition_taken >= kConditionSpan) {
    keeper.condition = CARMA_TRY(AskCondition(calls_, device));
    keeper.condition_taken = reading.taken;
  }
  reading.condition = keeper.condition;
  return Unit{};
}

}  // namespace

std::unique_ptr<NvmlProbe> MakeNvmlProbe(NvmlLibrary library) {
  return std::make_unique<LibraryProbe>(std::move(library));
}

Result<std::unique_ptr<NvmlProbe>> LoadNvmlProbe(const std::string& library) {
  NvmlLibrary loaded = CARMA_TRY(LoadNvml(library));
  return MakeNvmlProbe(std::move(loaded));
}

std::expected<DriverVersions, NoDriver> AskDriverVersions(const std::string& library) {
  const Result<NvmlLibrary> loaded = LoadNvml(library);
  if (!loaded) return std::unexpected(NoDriver{.message = loaded.error().message});
  const NvmlApi& api = loaded->api;
  if (const nvml::Return code = api.init(); code != nvml::kSuccess) {
    return std::unexpected(NoDriver{.message = fmt::format("{}: {}", kOpening, NvmlText(api, code)),
                                    .nvml_code = code});
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
  if (api.cuda_version && api.cuda_version(&cuda) == nvml::kSuccess && cuda > 0)
    versions.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  if (api.shutdown) api.shutdown();
  return versions;
}

}  // namespace carma::gpu

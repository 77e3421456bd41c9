#include "cli/doctor/ask.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "config/simulated.h"
#include "estimate/calibration.h"
#include "estimate/loaded_code.h"
#include "gpu/cuda_context.h"
#include "gpu/memory_sum.h"
#include "gpu/mig_mode.h"
#include "gpu/nvml_probe.h"
#include "gpu/recording.h"

namespace carma::cli {
namespace {

// Time limit, in real time, for all queries to the driver together.
constexpr std::chrono::seconds kDriverPatience{20};
constexpr base::Duration kGpuPatience{5'000};
// Counters are averages over the interval between two samples. NVML needs at least 100 ms between
// them.
constexpr std::chrono::milliseconds kSamplePause{300};
// Longer than MeasureContext() waits for the CUDA driver.
constexpr std::chrono::seconds kContextPatience{35};

// Runs the call in its own thread. If the call never returns, the thread remains until the process
// exits.
template <class T>
std::optional<T> Within(std::chrono::seconds patience, std::function<T()> call) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<T> value;
  };
  auto meeting = std::make_shared<Meeting>();  // shared, because either side may finish last
  std::thread([meeting, call = std::move(call)] {
    T value = call();
    const std::scoped_lock lock(meeting->mutex);
    meeting->value = std::move(value);
    meeting->done.notify_one();
  }).detach();
  std::unique_lock lock(meeting->mutex);
  meeting->done.wait_for(lock, patience, [&] { return meeting->value.has_value(); });
  return std::move(meeting->value);
}

DriverFacts AskAtOnce(const config::Settings& settings) {
  DriverFacts facts{.versions = gpu::AskDriverVersions(settings.nvml_library),
                    .simulated = !settings.simgpu_state.empty()};
  if (!facts.versions) return facts;
  const gpu::LoadedProbe loaded = gpu::LoadProbe(ProbeOptionsOf(settings));
  const gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices = loaded.probe->Devices();
  if (!devices) {
    facts.gpus = std::unexpected(devices.error().AsError());
    return facts;
  }
  std::this_thread::sleep_for(kSamplePause);
  base::SystemClock clock;
  for (std::size_t i = 0; i < devices->size(); ++i)
    facts.gpus->push_back({(*devices)[i], loaded.probe->Read(i, clock.Now())});
  if (loaded.dcgm_trouble) facts.dcgm_trouble = loaded.dcgm_trouble();
  // The queries below visit every GPU, so a single hung GPU would block them.
  const auto hangs = [](const gpu::DeviceInfo& each) {
    return each.trouble.cause == gpu::TroubleCause::kHangs;
  };
  if (std::ranges::any_of(*devices, hangs)) return facts;
  facts.pending_mig = gpu::AskPendingMigModes(settings.nvml_library);
  facts.uneven_memory = gpu::AskUnevenMemory(settings.nvml_library);
  return facts;
}

using Cost = std::expected<gpu::ContextCost, gpu::ContextTrouble>;

std::unexpected<gpu::ContextTrouble> CannotAsk(const std::string& why) {
  return std::unexpected(
      gpu::ContextTrouble{.kind = gpu::ContextTrouble::Kind::kUnclear, .text = why});
}

// Uses its own probe, so a hang blocks nothing else. Loads only NVML, because DCGM's counters are
// not needed.
Cost MeasureOne(const std::string& nvml_library, const std::string& uuid) {
  const Result<std::unique_ptr<gpu::Probe>> probe = gpu::LoadNvmlProbe(nvml_library);
  if (!probe) return CannotAsk(probe.error().message);
  const gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices = (*probe)->Devices();
  if (!devices) return CannotAsk(devices.error().Sentence());
  const auto found = std::ranges::find(*devices, uuid, &gpu::DeviceInfo::uuid);
  if (found == devices->end()) return CannotAsk("the GPU is gone");
  return gpu::MeasureContext(**probe, static_cast<std::size_t>(found - devices->begin()), *found,
                             {.holder = {base::ExecutableDir() + "/carma", gpu::kHoldContextWord}});
}

}  // namespace

gpu::ProbeOptions ProbeOptionsOf(const config::Settings& settings) {
  return {.reader = base::ExecutableDir() + "/carma-reader",
          .nvml_library = settings.nvml_library,
          .source = settings.activity_source,
          .period = settings.sample_period,
          .patience = kGpuPatience};
}

DriverFacts AskDriver(const config::Settings& settings) {
  std::optional<DriverFacts> facts =
      Within<DriverFacts>(kDriverPatience, [settings] { return AskAtOnce(settings); });
  if (facts) return std::move(*facts);
  return {.versions = std::unexpected(gpu::NoDriver{
              .message = fmt::format("the driver has not responded for {} s: it is hung",
                                     kDriverPatience.count())}),
          .simulated = !settings.simgpu_state.empty(),
          .hangs = true};
}

Result<DriverFacts> AskRecording(const std::string& path) {
  const std::string text = CARMA_TRY(ReadNamed(path, gpu::kMaxRecordingBytes));
  const gpu::Recording recording = CARMA_TRY(base::Wrap(gpu::ParseRecording(text), path));
  DriverFacts facts{.versions = gpu::DriverVersions{.driver = recording.driver},
                    .simulated = false};
  for (const gpu::DeviceInfo& info : recording.devices)
    facts.gpus->push_back({info, Unavailable("no sample of this GPU was recorded")});
  for (const gpu::RecordedAnswer& answer : recording.answers)
    (*facts.gpus)[answer.device].reading = answer.reading;
  return facts;
}

AssumedContext AskAssumed(api::Client& client, const std::string& gpu_type,
                          const config::Settings& settings) {
  const double shipped_mib =
      estimate::ShippedMib({estimate::Loading::kLazy, estimate::Libraries::kPlain});
  AssumedContext assumed{
      .mib = std::lround(shipped_mib), .tasks = 0, .learns = settings.estimate_history};
  const Called<api::KnowledgeView> known = GetKnowledge(client, "", "", gpu_type);
  if (!known) return assumed;
  assumed.reason = known->value.calibration;
  if (known->value.context_shift_mib == 0) return assumed;
  estimate::Site site;
  site.context_shift_mib = known->value.context_shift_mib;
  assumed.mib = std::lround(site.ContextMib(shipped_mib));
  assumed.taught_by = known->value.taught_by;
  assumed.tasks = known->value.tasks;
  return assumed;
}

void MeasureContexts(const config::Settings& settings, const DriverFacts& driver,
                     std::vector<ContextFacts>& contexts) {
  for (ContextFacts& context : contexts) {
    if (!context.not_measured.empty()) continue;
    const std::string library = settings.nvml_library;
    const std::string uuid = (*driver.gpus)[context.gpu].info.uuid;
    const gpu::ContextTrouble hung{
        .kind = gpu::ContextTrouble::Kind::kHung,
        .text = "the driver has not responded since a context was created"};
    context.cost = Within<Cost>(kContextPatience, [library, uuid] {
                     return MeasureOne(library, uuid);
                   }).value_or(std::unexpected(hung));
  }
}

Result<DiskFacts> AskDisk(std::string path, bool is_daemon_user) {
  while (!base::Exists(path) && path.size() > 1) {
    const std::size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) != 0) return FailErrno(errno, path);
  return DiskFacts{.path = path,
                   .free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize,
                   .free_files = disk.f_favail,
                   .counts_files = disk.f_files > 0,
                   .writable = !is_daemon_user || ::access(path.c_str(), W_OK | X_OK) == 0};
}

ClockFacts AskClock(const DaemonFacts& daemon) {
  const Result<api::StatusView>& status = daemon.status;
  timex answer{};
  ClockFacts clock{.now_ms = daemon.asked_ms, .synchronised = ::adjtimex(&answer) != TIME_ERROR};
  if (status && status->time_scale == 1) clock.daemon_ms = status->now_ms;
  return clock;
}

task::CgroupBase AskCgroups(const DaemonFacts& daemon) {
  const Result<api::StatusView>& status = daemon.status;
  if (!status) return task::FindCgroupBase();
  const std::string process = "/proc/" + std::to_string(status->pid);
  constexpr std::size_t kMaxText = 1 << 20;
  const Result<std::string> group = base::ReadFile(process + "/cgroup", kMaxText);
  const Result<std::string> mounts = base::ReadFile(process + "/mountinfo", kMaxText);
  if (!group || !mounts) return {.reason = "the daemon's cgroup cannot be read"};
  task::CgroupBase place = task::ParseCgroupPlace(*group, *mounts);
  return status->uid == ::geteuid() ? task::PlaceForTasks(task::IfWritable(std::move(place)))
                                    : place;
}

DaemonFacts AskDaemon(api::Client& client) {
  DaemonFacts daemon{.status = Unavailable(""), .gpus = {}};
  Called<api::StatusView> status = GetStatus(client);
  daemon.asked_ms = base::ToMs(base::SystemClock().Now());
  if (!status) {
    daemon.status = std::unexpected(status.error());
    return daemon;
  }
  daemon.status = std::move(status->value);
  if (Called<std::vector<api::GpuView>> gpus = ListGpus(client))
    daemon.gpus = std::move(gpus->value);
  const std::string state = daemon.status->state_dir + "/gpus";
  const Called<api::OverviewView> overview = GetOverview(client);
  if (overview && overview->value.simulated && base::Exists(state)) daemon.simulated_state = state;
  return daemon;
}

Result<config::Settings> LoadServerSettings(const std::string& file, bool of_root,
                                            const std::string& simulated_state) {
  const std::optional<std::string> named = file.empty() ? std::nullopt : std::optional(file);
  config::Sources sources = config::StandardSources(named, of_root);
  if (!simulated_state.empty())
    sources.overrides = config::SimulatedServer(base::ExecutableDir(), simulated_state);
  config::Loaded loaded = CARMA_TRY(config::Load(sources));
  const std::string& simulated = loaded.settings.simgpu_state;
  if (!simulated.empty()) ::setenv("CARMA_SIMGPU_STATE", simulated.c_str(), 1);
  return std::move(loaded.settings);
}

}  // namespace carma::cli

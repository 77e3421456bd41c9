// The part of EngineHost that handles readings from GPUs and their driver. It closes GPUs and
// provides evidence about why tasks ended.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/host.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/loop/boot_mark.h"
#include "daemon/server/engine_host.h"

namespace carma::daemon {
namespace {

constexpr auto kDriverGap = std::chrono::seconds(30);  // real time

// gpu: empty if the message is about the whole server.
std::string HealthMessage(std::optional<core::GpuIndex> gpu, const std::string& why) {
  const std::string host = base::ShortHostName();
  base::Json json{{"event", "health"}, {"host", host}, {"why", why}};
  if (gpu) json["gpu"] = core::Number(*gpu);
  json["text"] = gpu ? fmt::format("GPU {} on {} is not accepting tasks: {}", *gpu, host, why)
                     : fmt::format("{}: {}", host, why);
  return base::DumpJson(json);
}

// True if a notice may be sent now, in which case it counts as sent. Without this limit, a GPU that
// fails and recovers every few seconds would cause a notice each time.
bool MaySend(FailureNotices& notices, base::Time now) {
  constexpr std::size_t kMostPerHour = 5;
  std::erase_if(notices.sent, [&](base::Time sent) { return sent < now - std::chrono::hours(1); });
  if (notices.sent.size() >= kMostPerHour) return false;
  notices.sent.push_back(now);
  return true;
}

}  // namespace

void EngineHost::DriverSilent(const gpu::ReadError& why) {
  bool new_failure = false;
  for (core::Event& event : monitor_.DriverSilent(why)) {
    if (const auto* health = std::get_if<core::GpuHealthChanged>(&event))
      new_failure |= !std::exchange(failure_notices_[health->gpu].failing, true);
    engine_.Post(std::move(event));
  }
  // Sends a single notice for all GPUs, or none if a driver upgrade has already been reported.
  if (new_failure && driver_upgrade_.value_or("").empty() &&
      MaySend(failure_notices_.begin()->second, around_.clock.Now()))
    TellAdministrators("health", HealthMessage(std::nullopt, why.Sentence()));
}

std::set<std::size_t> EngineHost::LeftAlone() const {
  std::set<std::size_t> alone;
  for (const core::GpuView& gpu : engine_.scheduler().Gpus(around_.clock.Now())) {
    if (gpu.LeftAlone()) alone.insert(core::Number(gpu.index));
  }
  return alone;
}

void EngineHost::PostSeen(core::Event event) {
  if (const auto* drain = std::get_if<core::DrainRequested>(&event)) {
    // A driver upgrade closes every GPU, but TakeDriverVersions() reports it only once.
    if (!drain->why.starts_with(core::kDriverUpgradeText))
      TellAdministrators("health", HealthMessage(drain->gpu, drain->why));
    return engine_.Drain(*drain);
  }
  if (const auto* resume = std::get_if<core::ResumeRequested>(&event))
    return engine_.Resume(*resume);
  if (const auto* health = std::get_if<core::GpuHealthChanged>(&event)) {
    base::LogWarn("gpu_health", {{"gpu", health->gpu},
                                 {"healthy", health->healthy},
                                 {"lost", health->lost},
                                 {"why", health->text}});
    // Administrators get one notice per failure, even if its text changes with each reading. They
    // get none if the health rules closed the GPU, often after an Xid, because that drain has its
    // own notice.
    const bool closed = settings().health.drain && !monitor_.HealthTrouble(health->gpu).empty();
    FailureNotices& its = failure_notices_[health->gpu];
    const bool new_failure = !std::exchange(its.failing, !health->healthy) && its.failing;
    if (new_failure && !closed && MaySend(its, around_.clock.Now()))
      TellAdministrators("health", HealthMessage(health->gpu, health->text));
  }
  engine_.Post(std::move(event));
}

// Restores the drains made by the health rules of an earlier carmad, so that the rules can open
// these GPUs again.
void EngineHost::RestoreHealthDrains() {
  const gpu::HealthRules& rules = settings().health;
  // A restart of the machine resets every GPU, so the reasons for its drains no longer apply.
  const bool anew = MarkBoot(settings().state_dir, base::BootId()) && rules.resume_when_cleared;
  const Result<std::vector<store::Drain>> drains = around_.store.Drains();
  if (!drains) return base::LogWarn("drains_not_read", {{"why", drains.error().message}});
  for (const store::Drain& drain : *drains) {
    const std::optional<core::GpuIndex> gpu = engine_.GpuByUuid(drain.gpu_uuid);
    if (!gpu || !drain.by_rule) continue;
    if (anew || !rules.drain) {
      engine_.Resume({*gpu, true});
    } else {
      monitor_.RestoreDrain(*gpu, drain.why);
      if (trials_ && drain.why.starts_with(kCudaTrouble)) trials_->Restore(*gpu);
    }
  }
}

void EngineHost::OpenWhatRulesClosed() {
  for (std::size_t i = 0; i < monitor_.devices().size(); ++i) {
    const auto gpu = static_cast<core::GpuIndex>(i);
    if (!monitor_.HealthTrouble(gpu).empty()) engine_.Resume({gpu, true});
  }
}

// ---- evidence from readings about ends of tasks ----

std::vector<int> EngineHost::RecentXids(core::GpuIndex gpu, base::Time since) {
  const std::vector<int>& ignored = settings().health.ignored_xids;
  std::vector<int> xids = monitor_.RecentXids(gpu, around_.clock.Now(), since);
  std::erase_if(xids, [&](int xid) { return std::ranges::find(ignored, xid) != ignored.end(); });
  return xids;
}

std::optional<core::TaskId> EngineHost::FaultyTask(core::GpuIndex gpu, base::Time since) {
  return around_.fault_origins.LastOn(monitor_.devices().at(core::Number(gpu)).pci,
                                      around_.clock.Now(), since);
}

// If CUDA turns out to be broken on a GPU, the task is retried. Nothing is tested if the health
// rules may not close GPUs, because the task would then be retried on the broken GPU forever.
void EngineHost::TryCuda(const std::vector<core::GpuIndex>& gpus,
                         std::function<void(const std::string&)> call) {
  if (!trials_ || !settings().health.drain) return call("");
  trials_->Ask(gpus, std::move(call));
}

std::unique_ptr<GpuTrials> EngineHost::MakeTrials() {
  if (!around_.try_cuda) return nullptr;
  std::vector<std::string> uuids;
  for (const gpu::DeviceInfo& device : monitor_.devices()) uuids.push_back(device.uuid);
  const auto hold = [this](core::GpuIndex gpu, bool held) {
    if (held) {
      return engine_.Post(core::GpuHealthChanged{
          gpu, false, false,
          "a task could not initialise CUDA on this GPU; the GPU is being tested"});
    }
    // If the trial failed, the next reading closes the GPU; otherwise, the GPU may be used again
    // after that reading.
    AfterNextReading([this, gpu] {
      if (monitor_.Healthy(gpu)) engine_.Post(core::GpuHealthChanged{gpu, true, false, ""});
    });
  };
  const auto found = [this](core::GpuIndex gpu, const std::string& why) {
    if (!driver_upgrade_.value_or("").empty()) return;
    monitor_.NoteCuda(gpu, why.empty() ? "" : fmt::format("{}{}", kCudaTrouble, why));
  };
  const auto known = [this](core::GpuIndex gpu) { return monitor_.CudaTrouble(gpu); };
  return std::make_unique<GpuTrials>(around_.loop, around_.clock, std::move(uuids),
                                     around_.try_cuda, GpuTrials::Actions{hold, found, known});
}

// ---- driver upgrades ----

void EngineHost::WatchDriver() {
  if (!around_.driver_versions) return;
  driver_reader_.Ask(around_.driver_versions, [this](const gpu::InstalledDriver& versions) {
    TakeDriverVersions(versions);
    driver_alarm_.Set(kDriverGap, [this] { WatchDriver(); });
  });
}

// During a driver upgrade new tasks would fail on every GPU. Running tasks continue.
void EngineHost::TakeDriverVersions(const gpu::InstalledDriver& versions) {
  const std::string why = versions.Differ()
                              ? fmt::format(
                                    "{}{} is loaded, {} is installed; no GPU task starts "
                                    "until this machine is rebooted",
                                    core::kDriverUpgradeText, *versions.loaded, *versions.installed)
                              : "";
  if (driver_upgrade_ == why) return;
  driver_upgrade_ = why;
  if (!why.empty()) {
    base::LogWarn("driver_upgrade", {{"why", why}});
    if (monitor_.DriverUpgrade() != why)
      TellAdministrators("health", HealthMessage(std::nullopt, why));
  }
  for (std::size_t i = 0; i < monitor_.devices().size(); ++i) {
    const auto gpu = static_cast<core::GpuIndex>(i);
    if (!why.empty() || monitor_.CudaTrouble(gpu).starts_with(core::kDriverUpgradeText))
      monitor_.NoteCuda(gpu, why);
  }
}

}  // namespace carma::daemon

// Runs the engine and its helpers on the daemon's loop. Created once the GPUs are known and the
// sharing method is decided; destroyed after the loop has ended. engine_host.cc has the code for
// turns, tasks and usage; engine_host_gpus.cc has the code for GPU readings.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/estimates.h"
#include "daemon/engine/forecast_drift.h"
#include "daemon/engine/launching.h"
#include "daemon/engine/line_meter.h"
#include "daemon/engine/mps_servers.h"
#include "daemon/engine/notice_sender.h"
#include "daemon/gpus/core_meter.h"
#include "daemon/gpus/fault_origins.h"
#include "daemon/gpus/gpu_trials.h"
#include "daemon/gpus/monitor.h"
#include "daemon/gpus/task_watch.h"
#include "daemon/http/endpoints.h"
#include "daemon/http/slow_answers.h"
#include "daemon/http/snapshot_answers.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "daemon/loop/completion_waiters.h"
#include "daemon/loop/configuration.h"
#include "daemon/loop/fair_turns.h"
#include "daemon/loop/loop_meter.h"
#include "daemon/loop/spare_memory.h"
#include "daemon/present/metrics.h"
#include "daemon/slurm/slurm_desk.h"
#include "gpu/driver_version.h"

namespace carma::daemon {

// Notices to administrators about one GPU's failed readings.
struct FailureNotices {
  bool failing = false;
  std::vector<base::Time> sent;  // within the last hour
};

class EngineHost : private Engine::Host {
 public:
  // Services that exist as soon as the daemon has started. All references must outlive the
  // EngineHost.
  struct Surroundings {
    std::shared_ptr<boost::asio::io_context> loop;
    // The sharing method and its policy must already be set. Follow() must be called whenever the
    // settings change.
    const Configuration::InForce& in_force;
    base::Clock& clock;
    store::Store& store;
    const Launching& launching;
    Counters& counters;
    LoopMeter& loop_meter;
    FaultOrigins& fault_origins;
    Routes::AskName ask_name;
    // As GpuEvidence::AfterNextReading().
    std::function<void(std::function<void()> call)> after_next_reading;
    std::string shim_path;
    std::string notify_path;
    // Called on a worker. If null, CUDA is never tested.
    GpuTrials::Try try_cuda = nullptr;
    // Called on a worker. If null, driver upgrades are not watched.
    std::function<gpu::InstalledDriver()> driver_versions = nullptr;
  };

  // gpus: the same devices in the core's format.
  EngineHost(Surroundings around, std::vector<gpu::DeviceInfo> devices,
             const std::vector<core::GpuInfo>& gpus);
  EngineHost(const EngineHost&) = delete;
  EngineHost& operator=(const EngineHost&) = delete;

  // Takes over from an earlier carmad. Returns the errors of Engine::Start(), after which the loop
  // must be stopped.
  Result<Unit> Start(std::vector<core::GpuInfo> gpus);
  EngineServices Services();
  // The GPUs that must not be read.
  std::set<std::size_t> LeftAlone() const;
  void TakeRound(const gpu::Round& round, const SeenProcesses& seen);
  // Called when the whole driver does not respond.
  void DriverSilent(const gpu::ReadError& why);
  // Called when new settings have taken effect. before: the previous settings.
  void Follow(const config::Settings& before);
  // Runs the last turn. Called after the loop has ended.
  void Stop();

  Engine& engine() { return engine_; }
  const Monitor& monitor() const { return monitor_; }
  const ForecastDrift& forecast_drift() const { return forecast_drift_; }
  const MpsServers& mps() const { return *mps_; }

 private:
  // Implements Engine::Host.
  void RequestTurn() override;
  void RequestEstimates(std::vector<EstimateJob> jobs) override { estimates_.Ask(std::move(jobs)); }
  void WakeAt(base::Time when) override;
  void RetryTurnLater() override {
    store_retry_.Set(std::chrono::seconds(1), [this] { RequestTurn(); });
  }
  void TaskChanged(const core::TaskChanged& change) override;
  void NoticesChanged() override {
    if (notice_sender_) notice_sender_->Look();
  }
  void JobReturnsChanged(const std::vector<store::JobReturnRow>& rows) override;
  std::optional<double> RecentFullness(core::GpuIndex gpu) override {
    return monitor_.RecentFullness(gpu, around_.clock.Now());
  }
  std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) override;
  std::optional<core::TaskId> FaultyTask(core::GpuIndex gpu, base::Time since) override;
  std::string LostGpu(core::GpuIndex gpu) override { return monitor_.LostNow(gpu); }
  void AfterNextReading(std::function<void()> call) override {
    around_.after_next_reading(std::move(call));
  }
  void TryCuda(const std::vector<core::GpuIndex>& gpus,
               std::function<void(const std::string&)> call) override;

  const config::Settings& settings() const { return around_.in_force.settings; }
  MpsServersOptions MakeMpsOptions() const;
  EngineOptions MakeEngineOptions();
  estimate::AppraisalRules FirstEstimateRules(const std::vector<core::GpuInfo>& gpus) const;
  void ListenToLeases();
  void WatchLauncher();
  void OpenSlurmDesk();
  // Sends a notice to the targets of notify.admin.
  void TellAdministrators(const std::string& event, const std::string& message);
  void TakeEstimates(std::vector<EstimateResult> results);
  void TellWhoComputes();
  void WatchTasks();
  // Use workers to read the progress and CPU usage of running tasks every few seconds.
  void ReadProgress();
  void ReadCores();
  void TellStalled(core::TaskId id);
  void WatchLine();
  void KeepUsage();
  void CloseUsage();
  void CloseUsageNow();
  // ---- engine_host_gpus.cc ----
  void PostSeen(core::Event event);
  void RestoreHealthDrains();
  void OpenWhatRulesClosed();
  std::unique_ptr<GpuTrials> MakeTrials();
  // Checks every half minute whether the installed driver has been upgraded.
  void WatchDriver();
  void TakeDriverVersions(const gpu::InstalledDriver& versions);

  const Surroundings around_;
  Monitor monitor_;
  CoreMeter core_meter_;  // used by cores_reader_
  std::unique_ptr<MpsServers> mps_;
  std::shared_ptr<estimate::History> history_;  // null if estimate.history is false
  EstimateService estimates_;
  Engine engine_;
  std::unique_ptr<NoticeSender> notice_sender_;  // null until it is needed
  std::unique_ptr<SlurmDesk> slurm_desk_;        // null if slurm.enabled is false
  boost::asio::posix::stream_descriptor launcher_fd_;
  Alarm wake_, store_retry_, usage_, progress_alarm_, cores_alarm_;
  SpareMemory spare_memory_;
  CompletionWaiters awaited_ends_;
  CompletionWaiters awaited_grants_;  // calls that wait for leases to be granted or to end
  ForecastDrift forecast_drift_;
  LineMeter line_;
  TaskWatch task_watch_;
  BackgroundWorker progress_reader_, cores_reader_;
  std::unique_ptr<GpuTrials> trials_;  // null if there are no trials
  BackgroundWorker driver_reader_;
  // Why a driver upgrade has closed all GPUs; "" if it has not. No value until this is known.
  std::optional<std::string> driver_upgrade_;
  std::map<core::GpuIndex, FailureNotices> failure_notices_;
  Alarm driver_alarm_;
  bool turn_posted_ = false;
  // Until this time, reports reuse the usage rows that were stored most recently.
  std::chrono::steady_clock::time_point usage_closed_until_;
  SlowAnswers slow_answers_;
  SnapshotAnswers snapshot_answers_;
  FairTurns fair_turns_;
};

}  // namespace carma::daemon

#include "daemon/daemon.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <map>
#include <set>

#include "api/http.h"
#include "api/troubles.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/log.h"
#include "base/server_clock.h"
#include "base/text.h"
#include "base/user.h"
#include "daemon/alarm.h"
#include "daemon/awaited_ends.h"
#include "daemon/background_worker.h"
#include "daemon/boot_mark.h"
#include "daemon/configuration.h"
#include "daemon/endpoints.h"
#include "daemon/engine.h"
#include "daemon/estimates.h"
#include "daemon/fault_origins.h"
#include "daemon/forecast_drift.h"
#include "daemon/from_settings.h"
#include "daemon/housekeeping.h"
#include "daemon/line_meter.h"
#include "daemon/loop_meter.h"
#include "daemon/metrics.h"
#include "daemon/monitor.h"
#include "daemon/mps_servers.h"
#include "daemon/notice_sender.h"
#include "daemon/notify.h"
#include "daemon/numbered_probe.h"
#include "daemon/present.h"
#include "daemon/routes.h"
#include "daemon/sampler.h"
#include "daemon/signals.h"
#include "daemon/slurm_desk.h"
#include "daemon/slurm_jobs.h"
#include "daemon/spare_memory.h"
#include "daemon/task_watch.h"
#include "daemon/user_names.h"
#include "estimate/history.h"
#include "store/store.h"
#include "task/describe/spec_json.h"
#include "task/lease/lease_launcher.h"
#include "task/process/cgroup.h"
#include "task/process/host_facts.h"
#include "task/shim/shim_launcher.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;
using base::Result;
using base::Unit;

constexpr auto kStoreRetry = std::chrono::seconds(1);
constexpr base::Duration kUsageSpan{60'000};
// Whoever started the daemon waits for a driver or a control daemon that does not answer no longer
// than this.
constexpr std::chrono::seconds kLongestSearch{5};
constexpr base::Duration kMpsLinger{60'000};
constexpr std::chrono::nanoseconds kLeastMpsLinger = std::chrono::milliseconds(500);
constexpr base::Duration kMpsBackoff{30'000};
constexpr int kMostFiles = 32;  // of users, to be read one after another
constexpr auto kFileLimit = std::chrono::seconds(10);
constexpr int kMostReports = 8;  // at once; they are made one after another

std::string HealthMessage(core::GpuIndex gpu, const std::string& why) {
  const std::string host = base::ShortHostName();
  return base::DumpJson({{"event", "health"},
                         {"host", host},
                         {"gpu", core::Number(gpu)},
                         {"why", why},
                         {"text", fmt::format("GPU {} of {} takes no tasks: {}", gpu, host, why)}});
}

class RealDaemon : public Daemon, public Engine::Host, public Sampler::Taker {
 public:
  RealDaemon(DaemonOptions options, std::unique_ptr<base::Clock> clock,
             std::unique_ptr<store::Store> store);
  Result<Unit> Listen();
  void Run() override;

  // Engine::Host
  void RequestTurn() override;
  void RequestEstimates(std::vector<EstimateJob> jobs) override;
  void WakeAt(base::Time when) override;
  void RetryTurnLater() override;
  void TaskChanged(const core::TaskRecord& record) override;
  void NoticesChanged() override;
  void JobReturnsChanged(const std::vector<store::JobReturnRow>& rows) override;
  std::optional<double> RecentFullness(core::GpuIndex gpu) override;
  std::vector<int> RecentXids(core::GpuIndex gpu, base::Time since) override;
  std::optional<core::TaskId> FaultyTask(core::GpuIndex gpu, base::Time since) override;
  std::string LostGpu(core::GpuIndex gpu) override;
  void AfterNextReading(std::function<void()> call) override;

  // Sampler::Taker
  void TakeGpus(std::vector<gpu::DeviceInfo> devices) override;
  std::set<std::size_t> LeftAlone() override;
  void TakeRound(gpu::Round round) override;
  void DriverSilent(const gpu::ReadError& why) override;

 private:
  // The endpoints that can be handled now; of the others the reason why not.
  void OpenRoutes(const std::string& why_not = "");
  Result<Unit> FindGroups();
  Result<Unit> OpenLauncher();
  void CancelLease(core::TaskId id);
  void OpenSlurmDesk();
  void WatchLeases();
  void TakeSignal(int number);
  void Follow(Configuration::Taken taken);
  void FollowWithEngine(const config::Settings& before);
  void OpenWhatRulesClosed();
  void Beat();
  void OpenEngine(std::vector<gpu::DeviceInfo> devices);
  // Tells whoever started this daemon, once.
  void TellServing();
  // Decides what collocation.method = "auto" has left open.
  void TakeMpsTrial(const Result<task::MpsAbilities>& mps);
  EngineOptions MakeEngineOptions();
  // Those of notify.admin.
  void TellAdministrators(const std::string& event, const std::string& message);
  void RestoreHealthDrains();
  // With what the configuration says of them.
  void TakeMeasuredProfiles();
  estimate::AppraisalRules EstimateRulesNow(estimate::AppraisalRules rules) const;
  void OpenEstimates(const std::vector<core::GpuInfo>& gpus,
                     std::shared_ptr<estimate::History> history);
  void OpenMps();
  void TakeEstimates(std::vector<EstimateResult> results);
  void PostSeen(core::Event event);
  void WatchTasks();
  void WatchLine();
  void KeepUsage();
  void CloseUsage();
  void WatchLauncher();
  Result<Unit> MakeAnswer(std::function<Answer(const std::atomic<bool>&)> make,
                          std::function<void(Answer)> send);
  void ReadFileOfUser(std::function<Answer()> read, std::function<void(Answer)> then);
  api::StatusView Status();
  std::vector<std::string> Troubles() const;

  DaemonOptions options_;
  // In force. Where the GPUs are known, the method of sharing and its rules have been decided.
  config::Settings settings_;
  std::shared_ptr<base::Clock> clock_;
  std::unique_ptr<store::Store> store_;
  // Shared with the workers' threads like the clock: one that hangs in a driver may come back when
  // everything else is gone. What it then posts is never run.
  std::shared_ptr<asio::io_context> shared_loop_ = std::make_shared<asio::io_context>(1);
  asio::io_context& loop_ = *shared_loop_;
  std::unique_ptr<task::Launcher> launcher_;
  task::LeaseLauncher* leases_ = nullptr;  // the same one
  asio::posix::stream_descriptor launcher_fd_{loop_};
  std::unique_ptr<MpsServers> mps_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<NoticeSender> notice_sender_;
  std::unique_ptr<SlurmDesk> slurm_desk_;  // null: slurm.enabled is false
  std::unique_ptr<Monitor> monitor_;
  FaultOrigins fault_origins_{settings_.kernel_log};
  UserNames user_names_{shared_loop_};
  std::vector<std::uint32_t> allow_groups_;
  std::shared_ptr<const estimate::MeasuredProfiles> measured_;  // null: none
  std::optional<std::uint32_t> socket_group_;
  Tokens tokens_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<api::Server> unix_server_;
  std::unique_ptr<api::Server> tcp_server_;
  std::unique_ptr<EstimateService> estimates_;
  Counters counters_;
  ForecastDrift forecast_drift_;
  Signals signals_{loop_};
  Configuration configuration_;
  LoopMeter loop_meter_{loop_, [this](std::chrono::nanoseconds late) {
                          counters_.CountLate(std::chrono::duration<double>(late).count());
                        }};
  Alarm wake_{loop_}, store_retry_{loop_}, usage_{loop_}, watchdog_{loop_}, serving_{loop_};
  SpareMemory spare_memory_{loop_};
  Housekeeping housekeeping_{loop_, loop_meter_, *store_, *clock_,
                             [this] { return settings_.keep_finished_days; }};
  AwaitedEnds awaited_ends_{loop_};
  AwaitedEnds awaited_grants_{loop_};  // of leases, or their ends
  bool turn_posted_ = false;
  task::HostFacts machine_;
  task::CgroupControls controls_;
  bool processes_counted_by_user_ = false;
  LineMeter line_;
  TaskWatch task_watch_{*store_, *clock_, settings_, [this](const std::string& message) {
                          TellAdministrators("idle", message);
                        }};
  std::unique_ptr<Sampler> sampler_;
  BackgroundWorker body_worker_{shared_loop_, BackgroundWorker::AtEnd::kWait};
  BackgroundWorker file_worker_{shared_loop_, BackgroundWorker::AtEnd::kLeave};
  BackgroundWorker mps_trial_{shared_loop_, BackgroundWorker::AtEnd::kLeave};
  BackgroundWorker report_worker_{shared_loop_, BackgroundWorker::AtEnd::kWait};
};

RealDaemon::RealDaemon(DaemonOptions options, std::unique_ptr<base::Clock> clock,
                       std::unique_ptr<store::Store> store)
    : options_(std::move(options)),
      settings_(options_.configuration.settings),
      clock_(std::move(clock)),
      store_(std::move(store)),
      tokens_(settings_.state_dir, [] { return base::ToMs(base::SystemClock().Now()); }),
      configuration_(shared_loop_, options_.configuration, options_.sources, *clock_,
                     [this](Configuration::Taken taken) { Follow(std::move(taken)); }) {
  const config::Settings& settings = settings_;
  gpu::ProbeOptions probe{.reader = options_.reader_path,
                          .nvml_library = settings.nvml_library,
                          .source = settings.activity_source,
                          .period = std::chrono::duration_cast<base::Duration>(
                              clock_->RealSpan(settings.sample_period)),
                          .patience = settings.probe_timeout};
  // A wait of our own must not look like a driver that hangs.
  probe.first_answer = std::min(probe.first_answer, settings.probe_timeout / 2);
  sampler_ = std::make_unique<Sampler>(shared_loop_, MakeNumberedProbe(probe), clock_,
                                       SamplerOptions{settings.state_dir, settings.sample_period,
                                                      settings.probe_timeout, settings.gpus},
                                       *this);
}

void RealDaemon::OpenRoutes(const std::string& why_not) {
  const ServerServices server{[this] { return Status(); },
                              [this] {
                                return MetricsText(engine_.get(), monitor_.get(), *store_,
                                                   counters_, configuration_, clock_->Now(),
                                                   options_.version) +
                                       LeaseMetricsText(*leases_);
                              },
                              &tokens_};
  Routes::Options options{
      ::getuid(),
      settings_.admins,
      [this](std::uint32_t uid, UserNames::Call call) { user_names_.Ask(uid, std::move(call)); },
      settings_.allow_users,
      allow_groups_,
      [this](std::string_view token) { return tokens_.Find(token); }};
  std::vector<Endpoint> table = Endpoints(server);
  if (engine_) {
    EngineServices engine{
        *engine_,
        *monitor_,
        *estimates_,
        *store_,
        settings_,
        *clock_,
        [this] {
          KeepUsage();
          engine_->Turn();
        },
        [this](auto make, auto send) { return MakeAnswer(std::move(make), std::move(send)); },
        [this](auto read, auto then) {
          body_worker_.Ask(
              [read = std::move(read)] {
                read();
                return true;
              },
              [then = std::move(then)](bool) { then(); });
        },
        [this](core::TaskId id, int seconds, std::function<void()> answer) {
          awaited_ends_.Await(id, std::chrono::seconds(seconds), std::move(answer));
        },
        [this](auto read, auto then) { ReadFileOfUser(std::move(read), std::move(then)); },
        *leases_,
        [this](core::TaskId id, int seconds, std::function<void()> answer) {
          awaited_grants_.Await(id, std::chrono::seconds(seconds), std::move(answer));
        },
        [this](std::uint32_t uid, UserNames::Call call) { user_names_.Ask(uid, std::move(call)); }};
    if (slurm_desk_) {
      engine.ask_claim = [this](std::uint64_t job, auto call) {
        slurm_desk_->claims.Ask(job, std::move(call));
      };
      engine.holds_job = [this](core::TaskId id) { return slurm_desk_->returning.Holds(id); };
    }
    table = Endpoints(server, &engine);
  }
  routes_ = std::make_unique<Routes>(std::move(options), std::move(table), why_not);
}

// Asked once, before the loop runs, which waits for no name service.
Result<Unit> RealDaemon::FindGroups() {
  const config::Settings& settings = settings_;
  if (!settings.socket_group.empty()) {
    const Result<std::uint32_t> group = base::FindGroup(settings.socket_group);
    if (!group) return std::unexpected(base::Wrap(group.error(), "daemon.socket_group"));
    socket_group_ = *group;
  }
  Result<std::vector<std::uint32_t>> groups = FindAllowedGroups(settings);
  if (!groups) return std::unexpected(groups.error());
  allow_groups_ = *std::move(groups);
  return Unit{};
}

Result<Unit> RealDaemon::OpenLauncher() {
  task::ShimLauncherOptions options{options_.shim_path, {}};
  if (settings_.cgroups) options.cgroup = task::FindCgroupBase();
  controls_ = task::EnableControls(options.cgroup);
  if (!settings_.cgroups) controls_.why_not = "task.cgroups is false";
  processes_counted_by_user_ =
      !options.cgroup.path.empty() && settings_.max_processes > 0 && !controls_.processes;
  machine_ = task::ReadHostFacts("", options.cgroup.path);
  Result<std::unique_ptr<task::Launcher>> shims = task::MakeShimLauncher(std::move(options));
  if (!shims) return std::unexpected(shims.error());
  Result<std::unique_ptr<task::LeaseLauncher>> leases =
      task::LeaseLauncher::Make(*std::move(shims), {.ends_dir = settings_.socket + ".ends"});
  if (!leases) return std::unexpected(leases.error());
  (*leases)->Listen({.gone = [this](core::TaskId id) { CancelLease(id); },
                     .granted = [this](core::TaskId id) { awaited_grants_.Ended(id); },
                     .joined =
                         [this](core::TaskId id, const base::ProcessId& process) {
                           if (engine_) engine_->attribution().AddRoot(id, process);
                         }});
  leases_ = leases->get();
  launcher_ = *std::move(leases);
  return Unit{};
}

// Whoever asked for it has gone before its turn.
void RealDaemon::CancelLease(core::TaskId id) {
  if (engine_) engine_->Post(core::CancelRequested{id, "carmad, for its process has ended"});
}

// Those that wait; the others were found by their folders.
void RealDaemon::WatchLeases() {
  const Result<std::vector<store::StoredTask>> unfinished = store_->Unfinished();
  if (!unfinished) return base::LogWarn("leases_not_read", {{"why", unfinished.error().message}});
  for (const store::StoredTask& stored : *unfinished) {
    const std::optional<task::TaskSpec> spec = task::LeaseSpecIn(stored.spec_json);
    const auto process = spec ? task::ParseLeaseProcess(*spec->lease) : std::nullopt;
    if (!process) continue;
    leases_->Watch(stored.record.id, *process, task::ParseLeaseKey(spec->lease_key.value_or("")));
  }
}

Result<Unit> RealDaemon::Listen() {
  // Without them people act over the socket; the daemon serves.
  if (const Result<Unit> loaded = tokens_.Load(); !loaded)
    base::LogWarn("tokens_not_read", {{"why", loaded.error().message}});
  if (Result<Unit> found = FindGroups(); !found) return found;
  TakeMeasuredProfiles();
  if (Result<Unit> opened = OpenLauncher(); !opened) return opened;
  Result<Unit> heard = signals_.Listen([this](int number) { TakeSignal(number); });
  if (!heard) return heard;
  OpenRoutes("carmad has not yet found any GPU");
  const config::Settings& settings = settings_;
  const std::string folder = settings.socket.substr(0, settings.socket.rfind('/'));
  if (Result<Unit> made = base::MakeDirs(folder, ::getuid() == 0 ? 0755 : 0700); !made) return made;
  const auto handler = [this](api::Request request, const api::Responder& respond) {
    loop_meter_.Look();
    routes_->Handle(std::move(request), respond);
  };
  Result<std::unique_ptr<api::Server>> unix_server =
      api::Server::ListenUnix(loop_, settings.socket, ::getuid() == 0 ? settings.socket_mode : 0600,
                              handler, socket_group_);
  if (!unix_server) return std::unexpected(unix_server.error());
  unix_server_ = std::move(*unix_server);
  if (!settings.http_port) return Unit{};
  Result<std::unique_ptr<api::Server>> tcp_server =
      api::Server::ListenTcp(loop_, static_cast<std::uint16_t>(*settings.http_port), handler);
  if (!tcp_server) return std::unexpected(tcp_server.error());
  tcp_server_ = std::move(*tcp_server);
  return Unit{};
}

void RealDaemon::Run() {
  Beat();
  sampler_->Start();
  WatchLauncher();
  housekeeping_.Run();
  if (processes_counted_by_user_) {
    base::LogInfo("processes_counted_by_user",
                  {{"why", "the service's group cannot count them (systemd 254 or newer can)"}});
  }
  std::vector<base::Field> where = {{"socket", settings_.socket}, {"state", settings_.state_dir}};
  if (tcp_server_)
    where.emplace_back("page", fmt::format("http://localhost:{}/", tcp_server_->port()));
  base::LogInfo("listening", where);
  NotifyServiceManager("READY=1");
  serving_.Set(kLongestSearch, [this] { TellServing(); });
  loop_.run();
  // Whoever still waits sees the connection end, as after a kill, and asks the next daemon.
  unix_server_.reset();
  tcp_server_.reset();
  if (engine_) KeepUsage();
  if (engine_) engine_->Turn();
  if (mps_) mps_->Close();
}

// ---- the configuration ----

void RealDaemon::TakeSignal(int number) {
  if (number == SIGHUP) {
    if (options_.reopen_log) options_.reopen_log();
    return configuration_.ReadAgain();
  }
  base::LogInfo("stopping", {{"signal", number}});
  NotifyServiceManager("STOPPING=1");
  loop_.stop();
}

// The keys that config::LoadAgain() lets change; everybody who was given a copy of one is told.
void RealDaemon::Follow(Configuration::Taken taken) {
  const config::Settings before = std::exchange(settings_, std::move(taken.settings));
  allow_groups_ = std::move(taken.allow_groups);
  measured_ = std::move(taken.profiles);
  base::SetLogLevel(settings_.log_level);
  task_watch_.Follow(before);
  if (engine_) FollowWithEngine(before);
}

void RealDaemon::FollowWithEngine(const config::Settings& before) {
  settings_.collocation = before.collocation;
  settings_.without_mps = before.without_mps;
  settings_.policy = config::PolicyFor(settings_, *settings_.collocation);
  engine_->Follow(MakeEngineOptions());
  notice_sender_->Follow(SenderOptionsOf(settings_, options_.notify_path));
  monitor_->Follow(MonitorOptionsOf(settings_));
  if (before.health.drain && !settings_.health.drain) OpenWhatRulesClosed();
  estimates_->Follow(EstimateRulesNow(estimates_->rules()), settings_.estimate_time_limit);
  OpenRoutes();
}

void RealDaemon::OpenWhatRulesClosed() {
  for (std::size_t i = 0; i < monitor_->devices().size(); ++i) {
    const auto gpu = static_cast<core::GpuIndex>(i);
    if (!monitor_->HealthTrouble(gpu).empty()) engine_->Resume({gpu, true});
  }
}

void RealDaemon::Beat() {
  const std::optional<std::chrono::microseconds> period = WatchdogPeriod();
  if (!period) return;
  NotifyServiceManager("WATCHDOG=1");
  watchdog_.Set(*period, [this] { Beat(); });
}

// ---- GPUs ----

EngineOptions RealDaemon::MakeEngineOptions() {
  EngineOptions options = EngineOptionsOf(settings_, machine_, controls_);
  options.loop = shared_loop_;
  options.mps = mps_.get();
  if (settings_.slurm_enabled)
    options.job_return = [this](const core::TaskRecord& record) {
      return ReturnOfJob(record, *store_, engine_->scheduler(), settings_.slurm_retries);
    };
  return options;
}

void RealDaemon::OpenSlurmDesk() {
  if (!settings_.slurm_enabled) return;
  slurm_desk_ = std::make_unique<SlurmDesk>(
      shared_loop_,
      SlurmPrograms{.scontrol = settings_.slurm_scontrol, .squeue = settings_.slurm_squeue},
      base::ShortHostName(),
      [this](store::JobReturnRow row, const std::string& told, Engine::Done done) {
        engine_->KeepJobReturn(std::move(row), told, std::move(done));
      },
      [this] { return JobsThatWait(*leases_, engine_->scheduler(), clock_->Now()); });
  const Result<std::vector<store::JobReturnRow>> left = store_->JobReturns();
  if (!left) return base::LogWarn("job_returns_not_read", {{"why", left.error().message}});
  JobReturnsChanged(*left);
}

void RealDaemon::JobReturnsChanged(const std::vector<store::JobReturnRow>& rows) {
  if (!slurm_desk_) return;
  for (const store::JobReturnRow& row : rows) slurm_desk_->returning.Take(row);
}

void RealDaemon::NoticesChanged() {
  if (notice_sender_) notice_sender_->Look();
}

// With the daemon's rights: they are the administrator's own.
void RealDaemon::TellAdministrators(const std::string& event, const std::string& message) {
  for (const std::string& target : settings_.notify_admin) {
    engine_->AddNotice({.uid = ::getuid(),
                        .event = event,
                        .target = target,
                        .message = message,
                        .made = clock_->Now(),
                        .next = clock_->Now()});
  }
}

void RealDaemon::TakeGpus(std::vector<gpu::DeviceInfo> devices) {
  config::Settings& settings = settings_;
  if (!core::Shares(settings.policy)) settings.collocation = core::SharingMethod::kAlone;
  if (settings.collocation) return OpenEngine(std::move(devices));
  OpenRoutes("carmad is asking NVIDIA's MPS control daemon");
  mps_trial_.Ask(
      [setup = MpsSetupOf(settings_, options_.shim_path), limit = settings.mps_timeout] {
        return task::TryMps(setup, std::chrono::steady_clock::now() + limit);
      },
      [this, devices = std::move(devices)](const Result<task::MpsAbilities>& mps) {
        TakeMpsTrial(mps);
        OpenEngine(devices);
      });
}

void RealDaemon::TakeMpsTrial(const Result<task::MpsAbilities>& mps) {
  config::Settings& settings = settings_;
  settings.collocation = mps ? core::SharingMethod::kMps : core::SharingMethod::kStreams;
  if (!mps) settings.without_mps = mps.error().message;
  base::LogInfo("sharing", {{"method", config::CollocationName(*settings.collocation)},
                            {"without_mps", settings.without_mps}});
}

void RealDaemon::OpenEngine(std::vector<gpu::DeviceInfo> devices) {
  std::vector<core::GpuInfo> infos = GpuInfosOf(settings_, devices, machine_);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    base::LogInfo("gpu", {{"index", i},
                          {"uuid", devices[i].uuid},
                          {"name", devices[i].name},
                          {"total_mib", devices[i].total_mib},
                          {"sm_activity", devices[i].reports_sm_activity}});
  }
  config::Settings& settings = settings_;
  settings.policy = config::PolicyFor(settings, *settings.collocation);
  monitor_ = std::make_unique<Monitor>(std::move(devices), MonitorOptionsOf(settings));
  OpenMps();
  EngineOptions options = MakeEngineOptions();
  if (settings.estimate_history) options.history = std::make_shared<estimate::History>();
  OpenEstimates(infos, options.history);
  engine_ = std::make_unique<Engine>(std::move(options), *store_, *launcher_, *clock_, *this);
  if (Result<Unit> started = engine_->Start(std::move(infos)); !started) {
    base::LogError("start_failed", {{"why", started.error().message}});
    engine_.reset();
    loop_.stop();
    return;
  }
  notice_sender_ = std::make_unique<NoticeSender>(
      loop_, *store_, *clock_, SenderOptionsOf(settings_, options_.notify_path),
      [this](store::Notice result) { engine_->TakeNoticeResult(std::move(result)); });
  notice_sender_->Look();
  WatchLeases();
  OpenSlurmDesk();
  RestoreHealthDrains();
  mps_->TakeOver(engine_->MpsServers());
  OpenRoutes();
  usage_.Set(clock_->RealSpan(kUsageSpan), [this] { CloseUsage(); });
}

void RealDaemon::TellServing() {
  serving_.Stop();
  if (const auto tell = std::exchange(options_.serving, nullptr)) tell();
}

// What the rules of an earlier daemon closed is theirs to open again.
void RealDaemon::RestoreHealthDrains() {
  const gpu::HealthRules& rules = settings_.health;
  // Every GPU was reset with the machine.
  const bool anew = MarkBoot(settings_.state_dir, base::BootId()) && rules.resume_when_cleared;
  const Result<std::vector<store::Drain>> drains = store_->Drains();
  if (!drains) return base::LogWarn("drains_not_read", {{"why", drains.error().message}});
  for (const store::Drain& drain : *drains) {
    const std::optional<core::GpuIndex> gpu = engine_->GpuByUuid(drain.gpu_uuid);
    if (!gpu || !drain.by_rule) continue;
    if (anew || !rules.drain) {
      engine_->Resume({*gpu, true});
    } else {
      monitor_->RestoreDrain(*gpu, drain.why);
    }
  }
}

std::set<std::size_t> RealDaemon::LeftAlone() {
  std::set<std::size_t> alone;
  if (!engine_) return alone;
  for (const core::GpuView& gpu : engine_->scheduler().Gpus(clock_->Now())) {
    if (gpu.LeftAlone()) alone.insert(core::Number(gpu.index));
  }
  return alone;
}

void RealDaemon::TakeRound(gpu::Round round) {
  if (!engine_) return;
  loop_meter_.Look();
  fault_origins_.Look(clock_->Now(), engine_->attribution());
  for (core::Event& event : monitor_->Take(clock_->Now(), round, engine_->attribution()))
    PostSeen(std::move(event));
  WatchTasks();
  WatchLine();
  TellServing();
}

void RealDaemon::DriverSilent(const gpu::ReadError& why) {
  if (!engine_) {
    OpenRoutes(fmt::format("no GPU: {}", why.Sentence()));
    return TellServing();
  }
  for (core::Event& event : monitor_->DriverSilent(why)) engine_->Post(std::move(event));
}

void RealDaemon::PostSeen(core::Event event) {
  if (const auto* drain = std::get_if<core::DrainRequested>(&event)) {
    TellAdministrators("health", HealthMessage(drain->gpu, drain->why));
    return engine_->Drain(*drain);
  }
  if (const auto* resume = std::get_if<core::ResumeRequested>(&event))
    return engine_->Resume(*resume);
  if (const auto* health = std::get_if<core::GpuHealthChanged>(&event)) {
    base::LogWarn("gpu_health", {{"gpu", health->gpu},
                                 {"healthy", health->healthy},
                                 {"lost", health->lost},
                                 {"why", health->text}});
    if (!health->healthy) TellAdministrators("health", HealthMessage(health->gpu, health->text));
  }
  engine_->Post(std::move(event));
}

void RealDaemon::WatchTasks() {
  const core::Scheduler& scheduler = engine_->scheduler();
  std::vector<const core::TaskRecord*> running;
  for (const core::TaskId id : engine_->attribution().Tasks()) {
    const core::TaskRecord* record = scheduler.Find(id);
    if (record != nullptr && record->state == core::TaskState::kRunning) running.push_back(record);
  }
  for (const core::TaskIdle& idle :
       task_watch_.Look(running, scheduler.config().margin_mib, *monitor_)) {
    engine_->Post(idle);
  }
}

void RealDaemon::WatchLine() {
  const core::Scheduler& scheduler = engine_->scheduler();
  const std::vector<core::TaskId> first = scheduler.InLine(1).with_gpus;
  line_.See(first.empty() ? core::ReasonCode::kNone
                          : scheduler.ReasonFor(first.front(), clock_->Now()).code,
            clock_->Now());
}

void RealDaemon::KeepUsage() {
  engine_->AddUsage(monitor_->CloseUsage(clock_->Now()), line_.Close(clock_->Now()));
}

void RealDaemon::CloseUsage() {
  KeepUsage();
  usage_.Set(clock_->RealSpan(kUsageSpan), [this] { CloseUsage(); });
}

std::optional<double> RealDaemon::RecentFullness(core::GpuIndex gpu) {
  return monitor_->RecentFullness(gpu, clock_->Now());
}

std::vector<int> RealDaemon::RecentXids(core::GpuIndex gpu, base::Time since) {
  const std::vector<int>& ignored = settings_.health.ignored_xids;
  std::vector<int> xids = monitor_->RecentXids(gpu, clock_->Now(), since);
  std::erase_if(xids, [&](int xid) { return std::ranges::find(ignored, xid) != ignored.end(); });
  return xids;
}

std::optional<core::TaskId> RealDaemon::FaultyTask(core::GpuIndex gpu, base::Time since) {
  return fault_origins_.LastOn(monitor_->devices().at(core::Number(gpu)).pci, clock_->Now(), since);
}

std::string RealDaemon::LostGpu(core::GpuIndex gpu) {
  return monitor_->LostNow(gpu);
}

void RealDaemon::AfterNextReading(std::function<void()> call) {
  sampler_->AfterNextReading(std::move(call));
}

// ---- turns ----

void RealDaemon::RequestTurn() {
  if (std::exchange(turn_posted_, true)) return;
  loop_meter_.Look();
  // Posted, not called: everything that is ready now shares one turn, and so one commit.
  asio::post(loop_, [this] {
    turn_posted_ = false;
    if (!engine_) return;
    const auto began = std::chrono::steady_clock::now();
    engine_->Turn();
    const auto ended = std::chrono::steady_clock::now();
    counters_.turn_seconds.Observe(std::chrono::duration<double>(ended - began).count());
    spare_memory_.CountTurn(began, ended);
  });
}

void RealDaemon::RetryTurnLater() {
  store_retry_.Set(kStoreRetry, [this] { RequestTurn(); });
}

void RealDaemon::WakeAt(base::Time when) {
  wake_.Set(clock_->RealSpan(when - clock_->Now()), [this] { engine_->Post(core::WakeUp{}); });
}

// ---- MPS ----

// Also where tasks share by streams: an earlier daemon may have been told otherwise.
void RealDaemon::OpenMps() {
  const config::Settings& settings = settings_;
  MpsServersOptions options;
  options.setup = MpsSetupOf(settings_, options_.shim_path);
  options.clients = static_cast<std::size_t>(settings.mps_clients);
  options.timeout = settings.mps_timeout;
  // Where a simulated minute is a moment, a control daemon is not started again and again.
  options.linger = std::max(clock_->RealSpan(kMpsLinger), kLeastMpsLinger);
  options.backoff = clock_->RealSpan(kMpsBackoff);
  mps_ = OpenMpsServers(shared_loop_, std::move(options));
}

// ---- estimates ----

estimate::AppraisalRules RealDaemon::EstimateRulesNow(estimate::AppraisalRules rules) const {
  rules.method = settings_.estimate_method;
  rules.coverage = settings_.estimate_coverage;
  rules.prefer_given = settings_.estimate_prefer_given;
  rules.measured = measured_;
  return rules;
}

// Asked before the loop runs. A server comes up without them: they only make predictions better.
void RealDaemon::TakeMeasuredProfiles() {
  auto profiles = ReadMeasuredProfiles(settings_);
  if (!profiles) return base::LogError("profiles_not_read", {{"why", profiles.error().message}});
  measured_ = *std::move(profiles);
  if (measured_) base::LogInfo("profiles_read", {{"profiles", measured_->size()}});
}

void RealDaemon::OpenEstimates(const std::vector<core::GpuInfo>& gpus,
                               std::shared_ptr<estimate::History> history) {
  estimate::AppraisalRules rules = EstimateRulesNow({});
  rules.history = std::move(history);
  estimate::SuitGpus(rules, gpus);
  estimates_ = std::make_unique<EstimateService>(
      shared_loop_, std::move(rules), settings_.estimate_time_limit,
      [this](std::vector<EstimateResult> results) { TakeEstimates(std::move(results)); });
}

void RealDaemon::RequestEstimates(std::vector<EstimateJob> jobs) {
  estimates_->Ask(std::move(jobs));
}

void RealDaemon::TakeEstimates(std::vector<EstimateResult> results) {
  for (EstimateResult& result : results) {
    counters_.Count(result);
    engine_->TakeEstimate(std::move(result));
  }
}

void RealDaemon::WatchLauncher() {
  if (launcher_->PollFd() < 0) return;
  if (!launcher_fd_.is_open()) launcher_fd_.assign(::dup(launcher_->PollFd()));
  launcher_fd_.async_wait(asio::posix::stream_descriptor::wait_read,
                          [this](const boost::system::error_code& error) {
                            if (error) return;
                            if (engine_) engine_->PollLauncher();
                            WatchLauncher();
                          });
}

// ---- answers that wait ----

Result<Unit> RealDaemon::MakeAnswer(std::function<Answer(const std::atomic<bool>&)> make,
                                    std::function<void(Answer)> send) {
  if (report_worker_.waiting() >= kMostReports) {
    return base::Fail(
        ErrorCode::kUnavailable,
        fmt::format("{} reports are being made already; try again", report_worker_.waiting()));
  }
  report_worker_.Ask(
      [make = std::move(make), wanted = report_worker_.wanted()] { return make(*wanted); },
      [this, send = std::move(send)](Answer answer) {
        send(std::move(answer));
        spare_memory_.GiveBackSoon();
      });
  return Unit{};
}

// The disk of a user's folder may not answer for ever.
void RealDaemon::ReadFileOfUser(std::function<Answer()> read, std::function<void(Answer)> then) {
  if (file_worker_.waiting() >= kMostFiles)
    return then(
        base::Fail(ErrorCode::kUnavailable, "many files are being read already; try again"));
  const auto in_time = file_worker_.Within(kFileLimit, [this, then] {
    file_worker_.Abandon();
    then(base::Fail(ErrorCode::kUnavailable, "the disk of the task's output does not answer"));
  });
  file_worker_.Ask(std::move(read), [in_time, then](Answer answer) {
    if (in_time()) then(std::move(answer));
  });
}

void RealDaemon::TaskChanged(const core::TaskRecord& record) {
  counters_.Count(record);
  if (!core::IsFinal(record.state)) return;
  awaited_ends_.Ended(record.id);
  awaited_grants_.Ended(record.id);
  const std::string drift = forecast_drift_.Take(record, settings_.estimate_coverage);
  if (!drift.empty()) base::LogWarn("forecast_drift", {{"what", drift}});
}

// ---- how it is ----

std::vector<std::string> RealDaemon::Troubles() const {
  std::vector<std::string> troubles;
  const std::string& driver = sampler_->driver_trouble();
  if (!driver.empty()) troubles.push_back(api::TroubleOfDriver(driver));
  if (engine_ && !engine_->store_trouble().empty())
    troubles.push_back(api::TroubleOfStore(engine_->store_trouble()));
  if (engine_ && !engine_->scheduler().MachineTrouble().empty())
    troubles.push_back("machine: " + engine_->scheduler().MachineTrouble());
  if (engine_ && engine_->closing())
    troubles.push_back(api::ServerIsClosed(engine_->closing()->why));
  if (!configuration_.trouble().empty())
    troubles.push_back(api::TroubleOfConfiguration(configuration_.trouble()));
  for (const std::string& drift : forecast_drift_.Sentences())
    troubles.push_back(api::TroubleOfEstimates(drift));
  // A silent driver is the trouble of each of its GPUs.
  if (monitor_ && driver.empty()) {
    for (std::string& trouble : monitor_->Troubles()) troubles.push_back(std::move(trouble));
  }
  return troubles;
}

api::StatusView RealDaemon::Status() {
  api::StatusView view;
  view.version = options_.version;
  view.uid = ::getuid();
  view.pid = ::getpid();
  view.now_ms = base::ToMs(clock_->Now());
  view.time_scale = 1e9 / static_cast<double>(clock_->RealSpan(base::Duration(1'000)).count());
  view.policy = PolicyLine(settings_);
  view.collocation = CollocationLine(settings_, monitor_.get());
  view.driver = !sampler_->driver_trouble().empty() ? sampler_->driver_trouble()
                : monitor_                          ? monitor_->DriverState()
                                                    : "being asked";
  if (engine_) view.host = PresentHost(*engine_, settings_.cpu_cap);
  view.starting = !engine_ && sampler_->driver_trouble().empty();
  if (engine_ && engine_->closing()) {
    const core::ServerClosed& closing = *engine_->closing();
    view.closed = closing.why;
    view.leave_by_ms = base::ToMs(closing.empty_by);
    const base::Duration ending = settings_.kill_grace + task::ShimLauncherOptions().hang_margin;
    view.gone_by_ms =
        base::ToMs(closing.empty_by) +
        static_cast<std::int64_t>(static_cast<double>(ending.count()) * view.time_scale);
  }
  if (const auto counts = store_->Counts()) {
    for (const auto& [state, count] : *counts)
      view.task_counts.emplace_back(core::TaskStateName(state), count);
  }
  view.longest_turn_s = counters_.longest_turn_s;
  view.troubles = Troubles();
  view.state_dir = settings_.state_dir;
  view.config_read_ms = base::ToMs(configuration_.read_at());
  view.config_needs_restart = configuration_.need_restart();
  return view;
}

// A simulated server has a clock of its own, which its tasks and its daemon share.
Result<std::unique_ptr<base::Clock>> MakeClock(const config::Settings& settings) {
  if (settings.simgpu_state.empty()) return std::make_unique<base::SystemClock>();
  const Result<base::ClockOrigin> clock = base::ReadServerClock(settings.simgpu_state);
  if (!clock) return base::Wrap(clock.error(), "simulation.state");
  return std::make_unique<base::SystemClock>(clock->time_scale, base::FromMs(clock->origin_time_ms),
                                             clock->origin_boot_ns);
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Make(DaemonOptions options) {
  // A client that hung up and a file that may not grow are errors of one write, no reason to end;
  // nor is a terminal that lets only its foreground write (stty tostop), or is closed meanwhile.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGTTOU, SIG_IGN);
  Signals::Block();  // until they are heard
  const config::Settings settings = options.configuration.settings;
  // As root passable, not readable: a task's interpreter opens its own script below it.
  const unsigned mode = ::getuid() == 0 ? 0711 : 0700;
  if (Result<Unit> made = base::MakeDirs(settings.state_dir, mode); !made)
    return std::unexpected(made.error());
  Result<std::unique_ptr<base::Clock>> clock = MakeClock(settings);
  if (!clock) return std::unexpected(clock.error());
  if (!settings.simgpu_state.empty()) {
    // The simulated driver library finds its server by the environment, as its tasks do.
    ::setenv("CARMA_SIMGPU_STATE", settings.simgpu_state.c_str(), 1);
  }
  Result<std::unique_ptr<store::Store>> store = store::Store::Open(settings.state_dir);
  if (!store) return std::unexpected(store.error());
  auto daemon =
      std::make_unique<RealDaemon>(std::move(options), std::move(*clock), std::move(*store));
  if (Result<Unit> listening = daemon->Listen(); !listening)
    return std::unexpected(listening.error());
  return daemon;
}

}  // namespace carma::daemon

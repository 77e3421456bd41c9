#include "daemon/server/engine_host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <utility>

#include "base/host.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/server/from_settings.h"
#include "daemon/slurm/slurm_jobs.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;

constexpr base::Duration kUsageSpan{60'000};
// For up to this many tasks, building a response is faster than forking.
constexpr std::size_t kFewTasks = 200;
constexpr auto kLongTurn = std::chrono::milliseconds(50);
// Length of the pause after a long turn, as a multiple of the turn's duration. With pauses this
// long, fewer than one in a hundred requests has to wait for a long turn.
constexpr int kPausesPerTurn = 200;
// Real time between two readings of the tasks' progress or CPU usage.
constexpr auto kReadingGap = std::chrono::seconds(3);

}  // namespace

EngineHost::EngineHost(Surroundings around, std::vector<gpu::DeviceInfo> devices,
                       const std::vector<core::GpuInfo>& gpus)
    : around_(std::move(around)),
      monitor_(std::move(devices), MonitorOptionsOf(settings())),
      // MPS servers are managed even if tasks share GPUs through streams, because an earlier carmad
      // may have used MPS.
      mps_(OpenMpsServers(around_.loop, MakeMpsOptions())),
      history_(settings().estimate_history ? std::make_shared<estimate::History>() : nullptr),
      estimates_(around_.loop, FirstEstimateRules(gpus), settings().estimate_time_limit,
                 std::bind_front(&EngineHost::TakeEstimates, this)),
      engine_(MakeEngineOptions(), around_.store, *around_.launching.launcher, around_.clock,
              *this),
      launcher_fd_(*around_.loop),
      wake_(*around_.loop),
      store_retry_(*around_.loop),
      usage_(*around_.loop),
      progress_alarm_(*around_.loop),
      cores_alarm_(*around_.loop),
      spare_memory_(*around_.loop),
      awaited_ends_(*around_.loop),
      awaited_grants_(*around_.loop),
      task_watch_(around_.store, around_.clock, settings(),
                  std::bind_front(&EngineHost::TellAdministrators, this, "idle")),
      progress_reader_(around_.loop, BackgroundWorker::AtEnd::kLeave),
      cores_reader_(around_.loop, BackgroundWorker::AtEnd::kWait),
      trials_(MakeTrials()),
      driver_reader_(around_.loop, BackgroundWorker::AtEnd::kLeave),
      driver_alarm_(*around_.loop),
      slow_answers_(around_.loop, [this] { spare_memory_.GiveBackSoon(); }),
      snapshot_answers_(*around_.loop,
                        [this] { return engine_.scheduler().Tasks().size() <= kFewTasks; }),
      fair_turns_(*around_.loop) {
  ListenToLeases();
}

Result<Unit> EngineHost::Start(std::vector<core::GpuInfo> gpus) {
  CARMA_TRY(engine_.Start(std::move(gpus)));
  notice_sender_ = std::make_unique<NoticeSender>(
      *around_.loop, around_.store, around_.clock, SenderOptionsOf(settings(), around_.notify_path),
      std::bind_front(&Engine::TakeNoticeResult, &engine_));
  notice_sender_->Look();
  WatchLauncher();
  WatchWaitingLeases(around_.store, *around_.launching.launcher);
  OpenSlurmDesk();
  RestoreHealthDrains();
  mps_->TakeOver(engine_.MpsServers());
  engine_.PollLauncher();  // before a time limit stops a task that has already ended
  usage_.Set(around_.clock.RealSpan(kUsageSpan), [this] { CloseUsage(); });
  ReadProgress();
  ReadCores();
  WatchDriver();
  return Unit{};
}

void EngineHost::Stop() {
  KeepUsage();
  engine_.Turn();
  engine_.Stop();
  mps_->Close();
}

void EngineHost::Follow(const config::Settings& before) {
  engine_.Follow(MakeEngineOptions());
  notice_sender_->Follow(SenderOptionsOf(settings(), around_.notify_path));
  monitor_.Follow(MonitorOptionsOf(settings()));
  if (before.health.drain && !settings().health.drain) OpenWhatRulesClosed();
  estimates_.Follow(AppraisalRulesOf(around_.in_force, estimates_.rules()),
                    settings().estimate_time_limit);
  task_watch_.Follow(before);
}

EngineServices EngineHost::Services() {
  EngineServices services{engine_,    monitor_,      around_.store,
                          settings(), around_.clock, around_.launching.launcher.get()};
  services.rules = estimates_.rules();
  services.close_usage = std::bind_front(&EngineHost::CloseUsageNow, this);
  services.answer_later = std::bind_front(&SlowAnswers::Report, &slow_answers_);
  services.aside = std::bind_front(&SlowAnswers::ReadBody, &slow_answers_);
  services.read_file = std::bind_front(&SlowAnswers::ReadFile, &slow_answers_);
  services.estimate = std::bind_front(&EstimateService::Ask, &estimates_);
  services.when_final = [this](core::TaskId id, int seconds, std::function<void()> answer) {
    awaited_ends_.Await(id, std::chrono::seconds(seconds), std::move(answer));
  };
  services.when_lease_changes = [this](core::TaskId id, int seconds, std::function<void()> answer) {
    awaited_grants_.Await(id, std::chrono::seconds(seconds), std::move(answer));
  };
  services.ask_name = around_.ask_name;
  services.in_turn = std::bind_front(&FairTurns::Ask, &fair_turns_);
  services.from_snapshot = std::bind_front(&SnapshotAnswers::Ask, &snapshot_answers_);
  if (slurm_desk_) {
    services.ask_claim = std::bind_front(&ClaimQuestions::Ask, &slurm_desk_->claims);
    services.holds_job = std::bind_front(&ReturningJobs::Holds, &slurm_desk_->returning);
    services.leaves = std::bind_front(&SlurmDesk::Leaves, slurm_desk_.get());
  }
  return services;
}

MpsServersOptions EngineHost::MakeMpsOptions() const {
  MpsServersOptions options = MpsServersOptionsOf(settings(), around_.clock, around_.shim_path);
  options.is_closed = [this](const std::string& gpu_uuid) {
    const std::optional<core::GpuIndex> gpu = engine_.GpuByUuid(gpu_uuid);
    return gpu && engine_.scheduler().Gpus(around_.clock.Now()).at(core::Number(*gpu)).drained;
  };
  options.readable = [this](const std::string& gpus) {
    std::string readable;
    for (const std::string_view uuid : base::Split(gpus, ',')) {
      const std::optional<core::GpuIndex> gpu = engine_.GpuByUuid(std::string(uuid));
      if (gpu && monitor_.Readable(*gpu)) readable.append(readable.empty() ? "" : ",").append(uuid);
    }
    return readable;
  };
  return options;
}

EngineOptions EngineHost::MakeEngineOptions() {
  EngineOptions options =
      EngineOptionsOf(settings(), around_.launching.machine, around_.launching.controls);
  options.loop = around_.loop;
  options.mps = mps_.get();
  options.history = history_;
  options.limiter = around_.launching.limiter;
  if (settings().slurm_enabled)
    options.job_return = [this](const core::TaskRecord& record) {
      return ReturnOfJob(record, around_.store, engine_.scheduler(), settings().slurm_retries);
    };
  return options;
}

// Estimation rules for these GPUs, including what was learned from finished tasks.
estimate::AppraisalRules EngineHost::FirstEstimateRules(
    const std::vector<core::GpuInfo>& gpus) const {
  estimate::AppraisalRules rules = AppraisalRulesOf(around_.in_force, {});
  rules.history = history_;
  estimate::SuitGpus(rules, gpus);
  return rules;
}

// ---- turns ----

void EngineHost::RequestTurn() {
  if (std::exchange(turn_posted_, true)) return;
  around_.loop_meter.Look();
  // Posted rather than called directly, so that all events that are ready now share one turn and
  // one commit.
  asio::post(*around_.loop, [this] {
    turn_posted_ = false;
    const auto began = std::chrono::steady_clock::now();
    engine_.Turn();
    const auto ended = std::chrono::steady_clock::now();
    around_.counters.turn_seconds.Observe(std::chrono::duration<double>(ended - began).count());
    spare_memory_.CountTurn(began, ended);
  });
}

void EngineHost::WakeAt(base::Time when) {
  wake_.Set(around_.clock.RealSpan(when - around_.clock.Now()),
            [this] { engine_.Post(core::WakeUp{}); });
}

void EngineHost::TaskChanged(const core::TaskChanged& change) {
  const core::TaskRecord& record = change.record;
  if (change.moved) around_.counters.Count(record);
  if (!core::IsFinal(record.state)) return;
  awaited_ends_.Ended(record.id);
  awaited_grants_.Ended(record.id);
  const std::string drift = forecast_drift_.Take(record, settings().estimate_coverage);
  if (!drift.empty()) base::LogWarn("forecast_drift", {{"what", drift}});
}

// ---- launcher ----

void EngineHost::ListenToLeases() {
  around_.launching.launcher->Listen(
      {.gone =
           [this](core::TaskId id) {
             // The process that requested the lease exited before the lease was granted.
             engine_.Post(core::CancelRequested{id, "carmad, because its process has exited"});
           },
       .granted = [this](core::TaskId id) { awaited_grants_.Ended(id); },
       .joined =
           [this](core::TaskId id, const base::ProcessId& process) {
             engine_.attribution().AddRoot(id, process);
           }});
}

void EngineHost::WatchLauncher() {
  if (around_.launching.launcher->PollFd() < 0) return;
  if (!launcher_fd_.is_open()) launcher_fd_.assign(::dup(around_.launching.launcher->PollFd()));
  launcher_fd_.async_wait(asio::posix::stream_descriptor::wait_read,
                          [this](const boost::system::error_code& error) {
                            if (error) return;
                            engine_.PollLauncher();
                            WatchLauncher();
                          });
}

// ---- estimates ----

void EngineHost::TakeEstimates(std::vector<EstimateResult> results) {
  for (EstimateResult& result : results) {
    around_.counters.Count(result);
    engine_.TakeEstimate(std::move(result));
  }
}

// ---- notices and Slurm jobs ----

// Notices to administrators are sent with the daemon's privileges, because the administrator has
// configured their targets.
void EngineHost::TellAdministrators(const std::string& event, const std::string& message) {
  for (const std::string& target : settings().notify_admin) {
    engine_.AddNotice({.uid = ::getuid(),
                       .event = event,
                       .target = target,
                       .message = message,
                       .made = around_.clock.Now(),
                       .next = around_.clock.Now()});
  }
}

void EngineHost::OpenSlurmDesk() {
  if (!settings().slurm_enabled) return;
  const task::LeaseLauncher& leases = *around_.launching.launcher;
  slurm_desk_ = std::make_unique<SlurmDesk>(
      around_.loop,
      SlurmPrograms{.scontrol = settings().slurm_scontrol, .squeue = settings().slurm_squeue},
      base::ShortHostName(),
      SlurmDesk::Calls{.keep = std::bind_front(&Engine::KeepJobReturn, &engine_),
                       .runs = [&leases](core::TaskId id) { return leases.Adopted(id); },
                       .waiting =
                           [this, &leases] {
                             return JobsThatWait(leases, engine_.scheduler(), around_.clock.Now());
                           },
                       .may_leave =
                           [this, &leases] {
                             const base::Time now = around_.clock.Now();
                             const auto soon = [this, now](base::Time start) {
                               return around_.clock.RealSpan(start - now) <=
                                      LeavingJobsOptions{}.after;
                             };
                             return JobsThatMayLeave(leases, engine_.scheduler(), now, soon);
                           }});
  const Result<std::vector<store::JobReturnRow>> left = around_.store.JobReturns();
  if (!left) return base::LogWarn("job_returns_not_read", {{"why", left.error().message}});
  JobReturnsChanged(*left);
}

void EngineHost::JobReturnsChanged(const std::vector<store::JobReturnRow>& rows) {
  if (!slurm_desk_) return;
  for (const store::JobReturnRow& row : rows) slurm_desk_->returning.Take(row);
}

// ---- readings ----

void EngineHost::TakeRound(const gpu::Round& round, const SeenProcesses& seen) {
  around_.loop_meter.Look();
  around_.fault_origins.Look(around_.clock.Now(), engine_.attribution());
  std::vector<GpuUse> uses = WhoUses(round, seen, engine_.attribution());
  for (std::uint32_t i = 0; i < uses.size(); ++i) {
    // A GPU without a reading keeps its last known usage.
    if (!round[i] || !*round[i]) uses[i] = monitor_.Use(core::GpuIndex{i});
  }
  engine_.faces().Follow(uses);
  for (core::Event& event : monitor_.Take(around_.clock.Now(), round, std::move(uses)))
    PostSeen(std::move(event));
  TellWhoComputes();
  WatchTasks();
  WatchLine();
}

// Reports the processes that each task has on GPUs to the launcher, which records the output files
// of leases, and to the MPS servers, which check that these processes are their clients.
void EngineHost::TellWhoComputes() {
  std::map<core::TaskId, std::vector<pid_t>> seen;
  for (std::uint32_t i = 0; i < engine_.scheduler().GpuInfos().size(); ++i) {
    for (const auto& [id, use] : monitor_.Use(core::GpuIndex{i}).tasks)
      seen[id].insert(seen[id].end(), use.pids.begin(), use.pids.end());
  }
  for (const auto& [id, pids] : seen) {
    around_.launching.launcher->SeenOnGpus(id, pids);
    const core::TaskRecord* record = engine_.scheduler().Find(id);
    if (record != nullptr && record->attempt->sharing.method == core::SharingMethod::kMps)
      mps_->Seen(id, record->attempt->number, pids);
  }
}

void EngineHost::WatchTasks() {
  const core::Scheduler& scheduler = engine_.scheduler();
  std::vector<const core::TaskRecord*> running;
  for (const core::TaskId id : engine_.attribution().Tasks()) {
    const core::TaskRecord* record = scheduler.Find(id);
    if (record != nullptr && record->state == core::TaskState::kRunning) running.push_back(record);
  }
  for (const core::TaskIdle& idle :
       task_watch_.Look(running, scheduler.config().margin_mib, monitor_)) {
    engine_.Post(idle);
  }
}

void EngineHost::ReadProgress() {
  std::vector<ProgressBoard::Place> places;
  for (const core::TaskId id : engine_.attribution().Tasks()) {
    const core::TaskRecord* record = engine_.scheduler().Find(id);
    if (record != nullptr && record->state == core::TaskState::kRunning)
      places.push_back(engine_.ProgressOf(*record));
  }
  const ProgressClocks clocks{base::ToMs(base::SystemClock().Now()),
                              base::ToMs(around_.clock.Now()), around_.clock.Scale()};
  const auto take = [this, clocks](std::vector<ProgressBoard::Seen> seen) {
    for (const core::TaskId id : engine_.progress().Take(std::move(seen), clocks)) TellStalled(id);
    core::ProgressSeen moved = engine_.progress().Left(base::ToMs(around_.clock.Now()));
    if (!moved.left.empty()) engine_.Post(std::move(moved));
    progress_alarm_.Set(kReadingGap, [this] { ReadProgress(); });
  };
  if (places.empty()) return take({});
  progress_reader_.Ask([places = std::move(places),
                        now_ms = clocks.system_ms] { return ProgressBoard::Read(places, now_ms); },
                       take);
}

// Does nothing on a simulated server, because its tasks barely use the machine's real cores.
void EngineHost::ReadCores() {
  if (!settings().simgpu_state.empty()) return;
  std::map<core::TaskId, pid_t> mains;
  for (const core::TaskId task : engine_.attribution().Tasks()) {
    if (const std::optional<pid_t> main = engine_.attribution().MainPid(task)) mains[task] = *main;
  }
  cores_reader_.Ask(
      [this, now = around_.clock.Now(), mains] { return core_meter_.Read(now, mains); },
      [this](const std::optional<core::HostSampled>& sample) {
        if (sample) engine_.Post(*sample);
        cores_alarm_.Set(kReadingGap, [this] { ReadCores(); });
      });
}

void EngineHost::TellStalled(core::TaskId id) {
  const Result<store::StoredTask> stored = around_.store.Get(id);
  if (!stored) return;
  const std::string text =
      fmt::format("Task {} ({}) of {} holds GPUs but is making no progress", id,
                  base::Printable(stored->name, 100), base::Printable(stored->user, 100));
  base::LogWarn("stalled", {{"task", id}, {"user", stored->user}});
  TellAdministrators("stalled", base::DumpJson({{"event", "stalled"},
                                                {"text", text},
                                                {"task", core::Number(id)},
                                                {"name", stored->name},
                                                {"user", stored->user}}));
}

void EngineHost::WatchLine() {
  const core::Scheduler& scheduler = engine_.scheduler();
  const std::vector<core::TaskId> first = scheduler.InLine(1).with_gpus;
  line_.See(first.empty() ? core::ReasonCode::kNone
                          : scheduler.ReasonFor(first.front(), around_.clock.Now()).code,
            around_.clock.Now());
}

void EngineHost::KeepUsage() {
  engine_.AddUsage(monitor_.CloseUsage(around_.clock.Now()), line_.Close(around_.clock.Now()));
}

// Turns are slow when the queue is long, so reports requested in quick succession share a turn.
void EngineHost::CloseUsageNow() {
  const auto now = std::chrono::steady_clock::now();
  if (now < usage_closed_until_) return;
  KeepUsage();
  engine_.Turn();
  const auto ended = std::chrono::steady_clock::now();
  if (ended - now > kLongTurn) usage_closed_until_ = ended + kPausesPerTurn * (ended - now);
}

void EngineHost::CloseUsage() {
  KeepUsage();
  usage_.Set(around_.clock.RealSpan(kUsageSpan), [this] { CloseUsage(); });
}

}  // namespace carma::daemon

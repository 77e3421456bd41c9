#include "daemon/engine/engine.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "core/scheduler/trial.h"
#include "daemon/engine/history_events.h"
#include "daemon/engine/job_returns.h"
#include "task/shim/container_command.h"

namespace carma::daemon {
namespace {

// The task that the event is about; empty if it is not about a single task.
std::optional<core::TaskId> TaskOf(const core::Event& event) {
  return std::visit(
      [](const auto& each) -> std::optional<core::TaskId> {
        if constexpr (requires { each.id; }) return each.id;
        return std::nullopt;
      },
      event);
}

// The error for a change that cannot be stored now but will take effect later.
base::Error NotYet(const std::string& why) {
  return {ErrorCode::kIo,
          "not written yet; the change takes effect once it can be written: " + why};
}

// True if there is an event of any of these kinds.
template <class... Kinds>
bool HasAny(const std::vector<core::Event>& events) {
  return std::ranges::any_of(events, [](const core::Event& event) {
    return (std::holds_alternative<Kinds>(event) || ...);
  });
}

}  // namespace

Engine::Engine(EngineOptions options, store::Store& store, task::Launcher& launcher,
               base::Clock& clock, Host& host)
    : options_(std::move(options)),
      store_(store),
      launcher_(launcher),
      clock_(clock),
      host_(host),
      scheduler_(options_.policy),
      faces_(options_.loop),
      intake_(options_, store, scheduler_, clock),
      starts_(options_, store, launcher, scheduler_, attribution_,
              [this](core::Event event) { Post(std::move(event)); }),
      ends_(options_, store, scheduler_, clock, host,
            [this](core::Event event) { Post(std::move(event)); }),
      notices_(options_.notices, store) {
  intake_.OnNotify(
      [this](const core::TaskSubmitted& task) { notices_.Join(task.id, task.request->array); });
}

std::optional<core::GpuIndex> Engine::GpuByUuid(const std::string& uuid) const {
  const std::vector<core::GpuInfo>& gpus = scheduler_.GpuInfos();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].uuid == uuid) return static_cast<core::GpuIndex>(i);
  }
  return std::nullopt;
}

std::vector<std::string> Engine::Uuids(const core::TaskRecord& record) const {
  std::vector<std::string> uuids;
  uuids.reserve(record.attempt->placement.size());
  for (const core::Placement& placement : record.attempt->placement)
    uuids.push_back(scheduler_.GpuInfos().at(core::Number(placement.gpu)).uuid);
  return uuids;
}

// ---- requests and events ----

void Engine::Submit(TaskList tasks, const Submitter& submitter, Intake::Answer answer) {
  if (submitter.durability == store::Durability::kLater) {
    answer = [this, answer = std::move(answer)](Result<Submitted> done) {
      for (std::size_t i = 0; done && !done->repeated && i < done->count; ++i)
        passing_.insert(core::TaskId{core::Number(done->first) + i});
      answer(std::move(done));
    };
  }
  intake_.Submit(std::move(tasks), submitter, std::move(answer));
  host_.RequestTurn();
}

namespace {

bool IsNewer(const core::Event& event, const core::Event& before) {
  if (event.index() != before.index()) return false;
  if (const auto* sampled = std::get_if<core::GpuSampled>(&event))
    return sampled->gpu == std::get<core::GpuSampled>(before).gpu;
  return std::holds_alternative<core::HostSampled>(event) ||
         std::holds_alternative<core::ProgressSeen>(event);
}

}  // namespace

void Engine::Post(core::Event event, Done done) {
  if (stopped_) return;
  if (intake_.IsUntold(TaskOf(event).value_or(core::TaskId{}))) {
    early_.emplace_back(std::move(event), std::move(done));
    return;
  }
  if (const auto* sampled = std::get_if<core::GpuSampled>(&event)) ends_.Watch(*sampled);
  // While the store refuses writes, samples would pile up, so only the newest event of each kind is
  // kept.
  const auto older = store_trouble_.empty()
                         ? events_.end()
                         : std::ranges::find_if(events_, std::bind_front(IsNewer, event));
  if (older == events_.end()) {
    events_.push_back(std::move(event));
  } else {
    *older = std::move(event);
  }
  if (done) next_.done.push_back(std::move(done));
  host_.RequestTurn();
}

void Engine::TakeEstimate(EstimateResult result) {
  estimated_.push_back(std::move(result));
  host_.RequestTurn();
}

void Engine::HandEstimates() {
  for (std::size_t i = 0; i < options_.turn_share && !estimated_.empty(); ++i) {
    EstimateResult result = std::move(estimated_.front());
    estimated_.pop_front();
    store::Forecast& forecast = result.forecast;
    const core::TaskRecord* record = scheduler_.Find(result.id);
    const bool awaited = record != nullptr && record->state == core::TaskState::kEstimating;
    if (awaited) core::NoteTooLarge(scheduler_, record->request, result.estimate, forecast.remarks);
    if (awaited && (record->queued_since != core::Time{} || forecast != store::Forecast{result.id}))
      next_.rows.forecasts.push_back(std::move(forecast));
    events_.emplace_back(
        core::EstimateReady{result.id, std::move(result.estimate), result.kind, result.profile});
  }
}

void Engine::HandEarlyEvents() {
  std::erase_if(early_, [this](auto& each) {
    auto& [event, done] = each;
    if (intake_.IsUntold(*TaskOf(event))) return false;
    events_.push_back(std::move(event));
    if (done) next_.done.push_back(std::move(done));
    return true;
  });
}

void Engine::ForgetCalibration(Done done) {
  next_.rows.forget_calibration = true;
  next_.done.push_back(std::move(done));
  host_.RequestTurn();
}

// If `policy` has limits on gpu_hours over a longer period than before, returns the ended attempts
// that the core needs for them. Otherwise returns nothing.
std::optional<std::vector<core::Taken>> Engine::EndedFor(const core::PolicyConfig& policy) {
  const auto longest = [](const core::PolicyConfig& of) {
    core::Duration span{0};
    for (const core::LimitRule& rule : of.limits)
      span = std::max(span, rule.gpu_hours ? rule.period : span);
    return span;
  };
  if (longest(policy) <= longest(options_.policy)) return std::nullopt;
  Result<std::vector<store::EndedAttempt>> attempts =
      store_.Attempts(clock_.Now() - longest(policy));
  if (!attempts) {
    base::LogError("limits_read", {{"why", attempts.error().message}});
    return std::nullopt;
  }
  std::vector<core::Taken> ended;
  for (store::EndedAttempt& each : *attempts) ended.push_back(std::move(each.taken));
  return ended;
}

void Engine::Follow(const EngineOptions& options) {
  std::optional<std::vector<core::Taken>> ended = EndedFor(options.policy);
  options_ = options;
  Post(core::HostDiscovered{options.host});
  Post(core::PolicyChanged{options.policy, std::move(ended)});
}

void Engine::AddUsage(std::vector<store::GpuUsage> rows, std::vector<store::LineWait> line_waits) {
  if (rows.empty() && line_waits.empty()) return;
  std::ranges::move(rows, std::back_inserter(next_.rows.usage));
  std::ranges::move(line_waits, std::back_inserter(next_.rows.line_waits));
  host_.RequestTurn();
}

void Engine::AddNotice(store::Notice notice) {
  next_.rows.notices.push_back(std::move(notice));
  host_.RequestTurn();
}

void Engine::TakeNoticeResult(store::Notice notice) {
  if (notice.state != store::NoticeState::kWaiting)
    next_.rows.events.push_back(NoticeEvent(notice, clock_.Now()));
  next_.rows.notice_results.push_back(std::move(notice));
  host_.RequestTurn();
}

void Engine::KeepJobReturn(store::JobReturnRow row, const std::string& told, Done done) {
  if (!told.empty()) next_.rows.events.push_back(SlurmEvent(row.task, told, clock_.Now()));
  next_.rows.job_returns.push_back(std::move(row));
  next_.done.push_back(std::move(done));
  host_.RequestTurn();
}

// ---- turns ----

void Engine::Stop() {
  stopped_ = true;
  // Moves the callbacks out first, because destroying some of them may request further changes or
  // responses.
  const std::vector<Done> next = std::exchange(next_.done, {});
  const std::vector<Done> decided = std::exchange(decided_.done, {});
  const auto early = std::exchange(early_, {});
}

// Detects that the store was removed, even if there is nothing to write.
void Engine::LookAfterStore() {
  if (!store_trouble_.empty()) return;
  const Result<Unit> in_place = store_.InPlace();
  if (!in_place) NoteStoreTrouble(in_place.error());
}

void Engine::NoteStoreTrouble(const base::Error& why) {
  if (store_trouble_.empty()) base::LogError("store_failed", {{"why", why.message}});
  store_trouble_ = why.message;
}

void Engine::Turn() {
  LookAfterStore();
  if (!Flush()) return AnswerWithTrouble();
  const bool accepted = AcceptSubmissions();
  HandEarlyEvents();
  HandEstimates();
  if (reservations_.IsDue(clock_.Now()))
    events_.push_back(core::ReservationsChanged{reservations_.Tell(clock_.Now())});
  const std::vector<core::Event> events = std::exchange(events_, {});
  if (!events.empty()) Collect(scheduler_.HandleAll(clock_.Now(), events));
  if (HasAny<core::GpuSampled>(events)) starts_.FollowPromises(clock_.Now());
  if (options_.mps != nullptr && HasAny<core::DrainRequested, core::ServerClosed>(events))
    options_.mps->EndOnClosedGpus();
  NoteDrains();
  decided_ = std::exchange(next_, {});
  if (!Flush()) return;
  if (!accepted) {
    host_.RetryTurnLater();
  } else if (intake_.HasMore() || !estimated_.empty()) {
    host_.RequestTurn();
  }
}

// Commits submissions before they reach the core and separately from its decisions, so that
// submissions can be refused if the disk is full. Returns false if the store refused them.
bool Engine::AcceptSubmissions() {
  const Result<Unit> accepted = intake_.AcceptShare(events_);
  if (!accepted) NoteStoreTrouble(accepted.error());
  return accepted.has_value();
}

// When the disk is full, callers get an error immediately. Submissions are refused, and changes to
// tasks take effect as soon as there is space.
void Engine::AnswerWithTrouble() {
  intake_.RefuseAll({ErrorCode::kIo, store_trouble_});
  for (Done& done : std::exchange(next_.done, {})) done(std::unexpected(NotYet(store_trouble_)));
}

void Engine::Collect(std::vector<core::Action> actions) {
  for (core::Action& action : actions) {
    if (const auto* changed = std::get_if<core::TaskChanged>(&action)) NoteChange(*changed);
    const auto* ask = std::get_if<core::AskToSave>(&action);
    if (ask != nullptr && !ask->after_restart) NoteAsked(ask->id);
    // Warns before the decision is stored. If carmad is killed in between, the task is warned
    // twice, which is better than never.
    if (const auto* warn = std::get_if<core::WarnTask>(&action)) starts_.Warn(*warn);
    if (const auto* ended = std::get_if<core::AttemptEnded>(&action))
      next_.rows.attempts.push_back(RowOf(*ended));
    if (const auto* start = std::get_if<core::StartTask>(&action)) {
      if (std::optional<core::Sharing> sharing = starts_.PlainSharing(*start)) {
        // The sharing mode is stored with the decision and reaches the core in the next turn.
        const auto row = next_.rows.records.find(start->id);
        if (row != next_.rows.records.end()) row->second.record.attempt.Edit().sharing = *sharing;
        Post(core::SharingChosen{start->id, start->attempt, *std::move(sharing)});
      }
    }
    next_.actions.push_back(std::move(action));
  }
}

void Engine::NoteChange(const core::TaskChanged& change) {
  const core::TaskRecord& record = change.record;
  std::vector<std::string> uuids = Uuids(record);
  if (change.moved) {
    if (std::optional<store::StoredEvent> told = StateEvent(record, uuids, clock_.Now()))
      next_.rows.events.push_back(*std::move(told));
    for (store::Notice& notice : notices_.Of(record, clock_.Now())) {
      if (notice.state == store::NoticeState::kDropped)
        next_.rows.events.push_back(NoticeEvent(notice, clock_.Now()));
      next_.rows.notices.push_back(std::move(notice));
    }
    std::optional<task::Observation> seen;
    if (!core::HoldsGpus(record.state)) seen = ends_.Learn(record);
    if (seen) next_.rows.observations.push_back(*std::move(seen));
    NoteJobReturn(record);
  }
  // A task being estimated is stored as kSubmitted, so that a restarted carmad estimates it again.
  if (record.state == core::TaskState::kEstimating && change.moved) return;
  store::RecordRow row{record, std::move(uuids)};
  if (record.state == core::TaskState::kEstimating) row.record.state = core::TaskState::kSubmitted;
  AddUnmanaged(row);
  next_.rows.records.insert_or_assign(record.id, std::move(row));
}

// The plan for the Slurm job is stored in the same batch as the task's end, so carmad carries it
// out even after a restart.
void Engine::NoteJobReturn(const core::TaskRecord& record) {
  if (!options_.job_return || !MayComeBack(record, scheduler_.config().slots)) return;
  JobReturnPlan plan = options_.job_return(record);
  if (plan.row) next_.rows.job_returns.push_back(*std::move(plan.row));
  if (!plan.told.empty())
    next_.rows.events.push_back(SlurmEvent(record.id, plan.told, clock_.Now()));
}

void Engine::NoteAsked(core::TaskId id) {
  const core::TaskRecord* record = scheduler_.Find(id);
  if (record == nullptr) return;
  const core::Reason why = scheduler_.ReasonFor(id, clock_.Now());
  next_.rows.events.push_back(AskedEvent(id, why, clock_.Now()));
}

store::EndedAttempt Engine::RowOf(const core::AttemptEnded& ended) const {
  store::EndedAttempt row{.task = ended.id,
                          .number = ended.attempt,
                          .taken = ended.taken,
                          .waited = ended.waited,
                          .started = ended.started,
                          .promised_mib = ended.promised_mib,
                          .peak_mib = ended.peak_mib,
                          .exit = ended.exit};
  for (const core::GpuIndex gpu : ended.gpus)
    row.gpu_uuids.push_back(scheduler_.GpuInfos().at(core::Number(gpu)).uuid);
  return row;
}

std::vector<store::EndedAttempt> Engine::RunningAttempts() const {
  std::vector<store::EndedAttempt> rows;
  for (const core::AttemptEnded& each : scheduler_.Attempts(clock_.Now()))
    rows.push_back(RowOf(each));
  return rows;
}

void Engine::NoteDrains() {
  for (const auto& [key, why] : next_.rows.drains) {
    const auto& [uuid, by_rule] = key;
    if (!why && by_rule && next_.rows.drains.contains({uuid, false})) continue;  // already recorded
    const auto text = why ? std::optional(why->why) : std::nullopt;
    next_.rows.events.push_back(DrainEvent(uuid, text, clock_.Now()));
  }
}

bool Engine::Flush() {
  if (decided_.Empty()) return true;
  // If callers are waiting, their changes must become durable immediately, because only durable
  // changes are confirmed.
  const store::Durability durability =
      decided_.done.empty() ? decided_.rows.Urgency(passing_) : store::Durability::kNow;
  if (Result<Unit> kept = store_.Apply(decided_.rows, durability); !kept) {
    NoteStoreTrouble(kept.error());
    // Callers get an error now, but the decisions wait until the store accepts writes.
    for (Done& done : std::exchange(decided_.done, {}))
      done(std::unexpected(NotYet(store_trouble_)));
    host_.RetryTurnLater();
    return false;
  }
  if (!store_trouble_.empty()) base::LogInfo("store_works_again");
  store_trouble_.clear();
  PerformAll(std::exchange(decided_, {}));
  return true;
}

// ---- actions ----

void Engine::PerformAll(Decided decided) {
  starts_.ShareCores();
  std::vector<EstimateJob> estimates;
  for (const core::Action& action : decided.actions) Perform(action, estimates);
  if (!estimates.empty()) host_.RequestEstimates(std::move(estimates));
  if (options_.history) {
    for (task::Observation& each : decided.rows.observations)
      options_.history->Add(std::move(each));
    if (decided.rows.forget_calibration) options_.history->ForgetCalibration();
  }
  for (const auto& [id, row] : decided.rows.records) {
    starts_.StartArranged(row.record);
    Forget(row.record);
  }
  for (Done& done : decided.done) done(Unit{});
  if (!decided.rows.notices.empty() || !decided.rows.notice_results.empty()) host_.NoticesChanged();
  if (!decided.rows.job_returns.empty()) host_.JobReturnsChanged(decided.rows.job_returns);
}

void Engine::Forget(const core::TaskRecord& record) {
  if (!core::HoldsGpus(record.state) && record.attempt->number > 0) {
    attribution_.Remove(record.id);
    starts_.Forget(record.id, record.attempt->number);
  }
  if (!core::IsFinal(record.state)) return;
  ends_.Forget(record.id);
  passing_.erase(record.id);
}

void Engine::Perform(const core::Action& action, std::vector<EstimateJob>& estimates) {
  if (const auto* changed = std::get_if<core::TaskChanged>(&action)) {
    host_.TaskChanged(*changed);
  } else if (const auto* start = std::get_if<core::StartTask>(&action)) {
    starts_.Launch(*start);
  } else if (const auto* stop = std::get_if<core::StopTask>(&action)) {
    starts_.Stop(*stop);
  } else if (const auto* ask = std::get_if<core::AskToSave>(&action)) {
    std::vector<base::Field> fields = {{"task", ask->id}, {"attempt", ask->attempt}};
    if (scheduler_.Find(ask->id) != nullptr) {
      const core::Reason why = scheduler_.ReasonFor(ask->id, clock_.Now());
      fields.emplace_back("why", base::WordOf(why.code));
    }
    base::LogInfo("asked_to_save", fields);
    // The task uses the machine's clock, but the clock of a simulated server may run faster.
    const auto left = clock_.RealSpan(ask->leaves_by - clock_.Now());
    launcher_.AskToSave(ask->id, ask->attempt,
                        base::SystemClock().Now() + std::chrono::floor<base::Duration>(left));
  } else if (const auto* drop = std::get_if<core::DropDeadline>(&action)) {
    launcher_.DropDeadline(drop->id, drop->attempt);
  } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
    host_.WakeAt(wake->when);
  } else if (const auto* request = std::get_if<core::RequestEstimate>(&action)) {
    Result<EstimateJob> job = intake_.JobForEstimate(request->id);
    if (job) {
      estimates.push_back(*std::move(job));
    } else {
      base::LogWarn("estimate_without_spec", {{"task", request->id}, {"why", job.error().message}});
      Post(core::EstimateReady{request->id, std::nullopt});
    }
  }
}

ProgressBoard::Place Engine::ProgressOf(const core::TaskRecord& record) const {
  const int attempt = record.attempt->number;
  return {record.id, attempt, !record.attempt->placement.empty(),
          starts_.AttemptDir(record.id, attempt)};
}

void Engine::NoteNoLimit(const core::TaskRecord& record, const std::string& why) {
  base::LogWarn("memory_limit_not_set", {{"task", record.id}, {"why", why}});
  core::Sharing sharing = record.attempt->sharing;
  sharing.group_limit_mib = 0;
  if (!sharing.note.empty()) sharing.note += ' ';
  sharing.note += "The kernel does not limit the task's GPU memory: " + why + ".";
  Post(core::SharingChosen{record.id, record.attempt->number, std::move(sharing)});
}

void Engine::PollLauncher() {
  launcher_.Poll([this](const task::ShimEvent& event) { TakeShimEvent(event); });
}

void Engine::TakeShimEvent(const task::ShimEvent& event) {
  const core::TaskRecord* record = scheduler_.Find(event.id);
  switch (event.kind) {
    case task::ShimEventKind::kStarted:
      attribution_.Add(event.id, event.process, event.cgroup,
                       task::ContainerGroup(task::BooksWord(store_.BooksOf(event.id).id), event.id,
                                            event.attempt));
      base::LogInfo(record != nullptr && record->attempt->started ? "task_found" : "task_started",
                    {{"task", event.id},
                     {"attempt", event.attempt},
                     {"pid", event.process.pid},
                     {"gpus", record != nullptr ? GpuNumbers(*record) : ""}});
      if (record != nullptr) starts_.Confine(*record);
      if (record != nullptr && !event.no_limit.empty()) NoteNoLimit(*record, event.no_limit);
      Post(core::TaskStarted{event.id, event.attempt});
      break;
    case task::ShimEventKind::kLaunchFailed:
      base::LogWarn("launch_failed",
                    {{"task", event.id}, {"attempt", event.attempt}, {"why", event.text}});
      starts_.Detach(event.id, event.attempt);
      Post(core::LaunchFailed{event.id, event.attempt, event.interrupted ? "" : event.text,
                              event.retryable, event.interrupted, event.exhausted, event.waits,
                              event.no_user, ends_.EndOf(event)});
      break;
    case task::ShimEventKind::kExited:
      ends_.Take(event);
      break;
  }
}

}  // namespace carma::daemon

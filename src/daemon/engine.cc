#include "daemon/engine.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Field;
using base::Result;
using base::Unit;

std::string OneLine(const core::Reason& reason) {
  std::string line(reason.code == core::ReasonCode::kNone ? "" : core::ReasonName(reason.code));
  if (!line.empty() && !reason.text.empty()) line += ": ";
  return line + base::Printable(reason.text, 500);
}

// "0,2"
std::string Indices(const core::TaskRecord& record) {
  std::vector<std::string> indices;
  for (const core::Placement& at : record.placement)
    indices.push_back(std::to_string(core::Number(at.gpu)));
  return base::Join(indices, ",");
}

// States that are passed through at every submission; the history would only repeat them.
bool WorthTelling(const core::TaskRecord& record) {
  if (record.state == core::TaskState::kSubmitted || record.state == core::TaskState::kEstimating)
    return false;
  return record.state != core::TaskState::kQueued || record.attempt > 0;
}

}  // namespace

Engine::Engine(EngineOptions options, store::Store& store, task::Launcher& launcher,
               base::Clock& clock, Host& host)
    : options_(std::move(options)),
      store_(store),
      launcher_(launcher),
      clock_(clock),
      host_(host),
      scheduler_(options_.policy) {}

std::string Engine::AttemptDir(core::TaskId id, int attempt) const {
  return options_.state_dir + "/attempts/" + std::to_string(core::Number(id)) + "/" +
         std::to_string(attempt);
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
  uuids.reserve(record.placement.size());
  for (const core::Placement& placement : record.placement) {
    uuids.push_back(scheduler_.GpuInfos().at(core::Number(placement.gpu)).uuid);
  }
  return uuids;
}

// ---- start ----

// The indices of an earlier life may name other GPUs now; the UUIDs tell.
Result<core::TaskRecord> Engine::Restore(store::StoredTask& stored) {
  core::TaskRecord record = std::move(stored.record);
  std::vector<core::Placement> placement;
  for (std::size_t i = 0; i < record.placement.size() && i < stored.gpu_uuids.size(); ++i) {
    const std::optional<core::GpuIndex> gpu = GpuByUuid(stored.gpu_uuids[i]);
    if (gpu) placement.push_back({*gpu, record.placement[i].claim_mib});
  }
  record.placement = std::move(placement);
  if (Result<Unit> filled = FillDependencies(record.request); !filled)
    return std::unexpected(filled.error());
  return record;
}

// The core forgets finished tasks; how a dependency ended is in the store.
Result<Unit> Engine::FillDependencies(core::TaskRequest& request) {
  for (core::Dependency& dependency : request.dependencies) {
    Result<std::optional<core::TaskState>> state = store_.StateOf(dependency.task);
    if (!state) return std::unexpected(state.error());
    if (*state && core::IsFinal(**state)) dependency.known_final = *state;
  }
  return Unit{};
}

Result<Unit> Engine::Start(std::vector<core::GpuInfo> gpus) {
  const base::Time now = opened_ = clock_.Now();
  Result<core::TaskId> next = store_.NextId();
  if (!next) return std::unexpected(next.error());
  next_id_ = *next;
  Collect(scheduler_.Handle(now, core::GpusDiscovered{std::move(gpus)}));
  Result<std::vector<store::Drain>> drains = store_.Drains();
  if (!drains) return std::unexpected(drains.error());
  for (const store::Drain& drain : *drains) {
    if (const std::optional<core::GpuIndex> gpu = GpuByUuid(drain.gpu_uuid))
      events_.push_back(core::DrainRequested{*gpu, drain.why, drain.by_rule});
  }
  if (options_.history) {
    Result<std::vector<task::Observation>> observations = store_.Observations();
    if (!observations) return std::unexpected(observations.error());
    for (task::Observation& each : *observations) options_.history->Add(std::move(each));
  }
  Result<std::vector<store::StoredTask>> unfinished = store_.Unfinished();
  if (!unfinished) return std::unexpected(unfinished.error());
  std::size_t with_process = 0;
  for (store::StoredTask& stored : *unfinished) {
    Result<core::TaskRecord> record = Restore(stored);
    if (!record) return std::unexpected(record.error());
    last_state_[core::Number(record->id)] = record->state;
    // Before the core hears of it, so that a stop it asks for again finds its shim.
    if (core::HoldsGpus(record->state)) {
      launcher_.Adopt(record->id, record->attempt, AttemptDir(record->id, record->attempt));
      if (options_.mps != nullptr && !record->sharing.server.empty()) {
        options_.mps->Adopt({record->id,
                             record->attempt,
                             {record->request.uid, stored.gid, record->sharing.server}});
      }
      ++with_process;
    }
    events_.push_back(core::TaskRestored{std::move(*record)});
  }
  Turn();
  base::LogInfo("engine_started",
                {{"unfinished", unfinished->size()}, {"with_process", with_process}});
  return Unit{};
}

// ---- what comes in ----

void Engine::Submit(std::vector<task::TaskSpec> specs, const Submitter& submitter,
                    std::function<void(Result<Submitted>)> answer) {
  submissions_.push_back({std::move(specs), submitter, std::move(answer)});
  host_.RequestTurn();
}

void Engine::Post(core::Event event, Done done) {
  if (const auto* sampled = std::get_if<core::GpuSampled>(&event);
      sampled != nullptr && !sampled->sample.attributed) {
    for (const auto& [task, mib] : sampled->sample.tasks_mib) unclear_.insert(core::Number(task));
  }
  events_.push_back(std::move(event));
  if (done) waiting_done_.push_back(std::move(done));
  host_.RequestTurn();
}

void Engine::TakeEstimate(EstimateResult result) {
  const store::Forecast& forecast = result.forecast;
  const core::TaskRecord* record = scheduler_.Find(result.id);
  const bool awaited = record != nullptr && record->state == core::TaskState::kEstimating;
  if (awaited && (!forecast.model.empty() || !forecast.remarks.empty() || forecast.formula))
    waiting_forecasts_.push_back(std::move(result.forecast));
  Post(core::EstimateReady{result.id, std::move(result.estimate)});
}

void Engine::ForgetCalibration(Done done) {
  waiting_forget_ = true;
  waiting_done_.push_back(std::move(done));
  host_.RequestTurn();
}

void Engine::Drain(const core::DrainRequested& drain, Done done) {
  const std::string& uuid = scheduler_.GpuInfos().at(core::Number(drain.gpu)).uuid;
  waiting_drains_[{uuid, drain.by_rule}] = drain.why;
  if (options_.mps != nullptr) options_.mps->Drain(uuid);
  Post(drain, std::move(done));
}

void Engine::Resume(const core::ResumeRequested& resume, Done done) {
  const std::string& uuid = scheduler_.GpuInfos().at(core::Number(resume.gpu)).uuid;
  waiting_drains_[{uuid, true}] = std::nullopt;
  if (!resume.by_rule) waiting_drains_[{uuid, false}] = std::nullopt;
  Post(resume, std::move(done));
}

void Engine::AddUsage(std::vector<store::GpuUsage> rows) {
  std::move(rows.begin(), rows.end(), std::back_inserter(waiting_usage_));
  host_.RequestTurn();
}

void Engine::Requeue(core::TaskId id, Done done) {
  if (scheduler_.Find(id) != nullptr && !core::IsFinal(scheduler_.Find(id)->state)) {
    Post(core::RequeueRequested{id}, std::move(done));
    return;
  }
  Result<store::StoredTask> stored = store_.Get(id);
  if (!stored) return done(std::unexpected(stored.error()));
  Result<core::TaskRecord> record = Restore(*stored);
  if (!record) return done(std::unexpected(record.error()));
  // From the start, with an estimate of what is known today: what earlier attempts taught is kept
  // (peak, attempt number), their failures are not held against it.
  core::TaskRecord fresh = std::move(*record);
  fresh.state = core::TaskState::kSubmitted;
  fresh.estimate.reset();
  fresh.queue = core::QueueKind::kMain;
  fresh.held = false;
  fresh.reason = {core::ReasonCode::kRequeuedByUser, "requeued by its owner"};
  fresh.ooms = fresh.launch_failures = fresh.node_failures = fresh.victim_restarts = 0;
  fresh.retry_free_mib.reset();
  fresh.retry_on_idle_gpu = false;
  fresh.not_before.reset();
  fresh.placement.clear();
  fresh.stopping = core::StopCause::kNone;
  fresh.queued_since = clock_.Now();
  fresh.launched.reset();
  fresh.started.reset();
  fresh.ended.reset();
  fresh.idle_since.reset();
  Collect({core::TaskChanged{fresh}});
  Post(core::TaskRestored{std::move(fresh)}, std::move(done));
}

// ---- submissions: a batch of their own, so that a full disk refuses them before the core has
// heard of them ----

Result<Unit> Engine::RefuseWhatNeverFits(const std::vector<task::TaskSpec>& specs,
                                         std::uint32_t uid) const {
  const task::TaskSpec* checked = nullptr;
  for (const task::TaskSpec& spec : specs) {
    // The thousands of tasks of one array ask for the same.
    if (checked != nullptr && checked->gpus == spec.gpus && checked->memory_mib == spec.memory_mib)
      continue;
    checked = &spec;
    std::optional<core::Estimate> estimate;
    if (spec.memory_mib) estimate = core::Estimate{*spec.memory_mib, spec.memory_source};
    if (const std::optional<core::Reason> never =
            scheduler_.NeverFits(task::ToRequest(spec, uid), estimate)) {
      return Fail(ErrorCode::kConflict, "task '" + base::Printable(spec.name, 60) +
                                            "' can never run here: " + never->text);
    }
  }
  return Unit{};
}

Result<Unit> Engine::CheckDependencies(const std::vector<task::TaskSpec>& specs) {
  const std::vector<core::Dependency>* checked = nullptr;
  for (const task::TaskSpec& spec : specs) {
    if (checked != nullptr && *checked == spec.dependencies) continue;
    checked = &spec.dependencies;
    for (const core::Dependency& dependency : spec.dependencies) {
      Result<std::optional<core::TaskState>> state = store_.StateOf(dependency.task);
      if (!state) return std::unexpected(state.error());
      if (*state) continue;
      return Fail(ErrorCode::kNotFound, "dependency on task " +
                                            std::to_string(core::Number(dependency.task)) +
                                            ", which does not exist");
    }
  }
  return Unit{};
}

store::StoredTask Engine::NewTask(const task::TaskSpec& spec, std::string spec_json,
                                  core::TaskId id, const Submitter& submitter,
                                  std::optional<core::TaskId> array) const {
  store::StoredTask stored;
  stored.record.id = id;
  stored.record.request = task::ToRequest(spec, submitter.uid);
  stored.record.request.array = array;
  if (!stored.record.request.time_limit)
    stored.record.request.time_limit = options_.default_time_limit;
  stored.record.held = spec.held;
  stored.record.submitted = stored.record.queued_since = clock_.Now();
  stored.gid = submitter.gid;
  stored.user = submitter.user;
  stored.name = spec.name;
  stored.spec_json = std::move(spec_json);
  stored.stdout_path = task::ExpandPath(spec.stdout_path, spec, id, submitter.user);
  stored.stderr_path = spec.stderr_path.empty()
                           ? stored.stdout_path
                           : task::ExpandPath(spec.stderr_path, spec, id, submitter.user);
  return stored;
}

Result<Submitted> Engine::Accept(Submission& submission, std::vector<core::Event>& events) {
  const std::vector<task::TaskSpec>& specs = submission.specs;
  if (specs.empty()) return Fail(ErrorCode::kInvalid, "no task in the submission");
  if (scheduler_.Tasks().size() + events.size() + specs.size() > options_.max_queued_tasks) {
    return Fail(ErrorCode::kConflict, "the queue would hold more than " +
                                          std::to_string(options_.max_queued_tasks) +
                                          " tasks (task.max_queued)");
  }
  if (Result<Unit> fits = RefuseWhatNeverFits(specs, submission.submitter.uid); !fits) {
    return std::unexpected(fits.error());
  }
  if (Result<Unit> known = CheckDependencies(specs); !known) return std::unexpected(known.error());
  const std::uint64_t first = core::Number(*next_id_);
  task::SpecWriter writer;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto id = static_cast<core::TaskId>(first + i);
    store::StoredTask stored = NewTask(
        specs[i], writer.Text(specs[i]), id, submission.submitter,
        specs[i].array_index ? std::optional(static_cast<core::TaskId>(first)) : std::nullopt);
    if (Result<Unit> put = store_.PutTask(stored); !put) return std::unexpected(put.error());
    if (Result<Unit> filled = FillDependencies(stored.record.request); !filled)
      return std::unexpected(filled.error());
    events.push_back(core::TaskSubmitted{id, std::move(stored.record.request)});
  }
  store::StoredEvent told;
  told.when = clock_.Now();
  told.kind = store::EventKind::kSubmitted;
  told.task = static_cast<core::TaskId>(first);
  told.what = "submitted";
  told.text = "by " + submission.submitter.user;
  if (specs.size() > 1)
    told.text += ", " + std::to_string(specs.size()) + " tasks from this one on";
  if (Result<Unit> put = store_.AddEvent(told); !put) return std::unexpected(put.error());
  next_id_ = static_cast<core::TaskId>(first + specs.size());
  return Submitted{static_cast<core::TaskId>(first), specs.size()};
}

void Engine::Refuse(Submission& submission, const base::Error& why) {
  submission.answer(base::Wrap(why, "cannot keep the task, nothing was accepted"));
}

// Nobody waits for a disk that is full: submissions have not happened, changes of tasks happen as
// soon as there is space.
void Engine::AnswerWithTrouble() {
  const base::Error why{ErrorCode::kIo, store_trouble_};
  for (Submission& each : std::exchange(submissions_, {})) Refuse(each, why);
  for (Done& done : std::exchange(waiting_done_, {})) done(std::unexpected(why));
}

void Engine::AcceptSubmissions() {
  if (submissions_.empty()) return;
  std::vector<Submission> submissions = std::exchange(submissions_, {});
  std::vector<Result<Submitted>> answers;
  std::vector<core::Event> accepted;
  // Each submission stands alone: one that is refused (before its first row is written) takes
  // nothing else with it. Those that pass share a commit; when the store fails, none has happened.
  const core::TaskId id_before = *next_id_;
  Result<Unit> durable = store_.Begin();
  for (std::size_t i = 0; durable && i < submissions.size(); ++i) {
    answers.push_back(Accept(submissions[i], accepted));
    const bool store_failed = !answers.back() && answers.back().error().code == ErrorCode::kIo;
    if (store_failed) durable = std::unexpected(answers.back().error());
  }
  if (durable) {
    durable = store_.Commit();
  } else {
    store_.Rollback();
  }
  if (!durable) {
    next_id_ = id_before;
    store_trouble_ = durable.error().message;
    base::LogWarn("submission_refused", {{"why", durable.error().message}});
    for (Submission& each : submissions) Refuse(each, durable.error());
    return;
  }
  for (const core::Event& event : accepted) {
    last_state_[core::Number(std::get<core::TaskSubmitted>(event).id)] =
        core::TaskState::kSubmitted;
  }
  std::move(accepted.begin(), accepted.end(), std::back_inserter(events_));
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    submissions[i].answer(answers[i]);
    if (!answers[i]) continue;
    KeepForEstimates(answers[i]->first, std::move(submissions[i].specs), submissions[i].submitter);
  }
}

// So that a large batch is not read back and parsed again before its first answer is old.
void Engine::KeepForEstimates(core::TaskId first, std::vector<task::TaskSpec> specs,
                              const Submitter& submitter) {
  std::uint64_t id = core::Number(first);
  for (task::TaskSpec& spec : specs) {
    spec.environment.clear();
    new_jobs_.emplace(id, EstimateJob{static_cast<core::TaskId>(id), std::move(spec), submitter.uid,
                                      submitter.gid});
    ++id;
  }
}

// ---- a turn ----

void Engine::Turn() {
  if (!Flush()) return AnswerWithTrouble();
  AcceptSubmissions();
  batch_.drains = std::exchange(waiting_drains_, {});
  batch_.usage = std::exchange(waiting_usage_, {});
  batch_.forecasts = std::exchange(waiting_forecasts_, {});
  batch_.forget_calibration = std::exchange(waiting_forget_, false);
  batch_.done = std::exchange(waiting_done_, {});
  std::vector<core::Event> events = std::exchange(events_, {});
  if (!events.empty()) Collect(scheduler_.HandleAll(clock_.Now(), events));
  Flush();
}

void Engine::Collect(std::vector<core::Action> actions) {
  for (core::Action& action : actions) {
    if (const auto* changed = std::get_if<core::TaskChanged>(&action)) NoteChange(changed->record);
    if (const auto* start = std::get_if<core::StartTask>(&action)) {
      if (std::optional<core::Sharing> sharing = PlainSharing(*start)) {
        // Durable with the decision itself; the core hears of it in the next turn.
        const auto record = batch_.records.find(start->id);
        if (record != batch_.records.end()) record->second.sharing = *sharing;
        Post(core::SharingChosen{start->id, start->attempt, *std::move(sharing)});
      }
    }
    batch_.actions.push_back(std::move(action));
  }
}

void Engine::NoteChange(const core::TaskRecord& record) {
  core::TaskState& last = last_state_[core::Number(record.id)];
  if (last != record.state && WorthTelling(record)) {
    store::StoredEvent event;
    event.when = clock_.Now();
    event.kind = store::EventKind::kState;
    event.task = record.id;
    event.what = std::string(core::TaskStateName(record.state));
    event.text = OneLine(record.state == core::TaskState::kLaunching ? record.placement_reason
                                                                     : record.reason);
    if (!record.placement.empty()) event.gpu_uuid = Uuids(record).front();
    if (event.text.empty() && record.placement.size() > 1) event.text = "GPUs " + Indices(record);
    batch_.events.push_back(std::move(event));
  }
  if (last != record.state && !core::HoldsGpus(record.state)) {
    if (std::optional<task::Observation> lesson = Lesson(record))
      batch_.observations.push_back(*std::move(lesson));
  }
  last = record.state;
  // Until the estimate is known a restart asks for it again: nothing to keep.
  if (record.state == core::TaskState::kEstimating) return;
  batch_.records.insert_or_assign(record.id, record);
}

// Nothing but tasks that were accepted and now wait: a restart finds them as submitted and asks for
// their estimates again. So one submission costs one wait for the disk, not two. Nor does how a
// launching task shares its GPUs need one: what a power failure forgets of it has ended with it.
bool Engine::KnownAgainAfterRestart(const Batch& batch) {
  return batch.events.empty() && batch.usage.empty() && batch.drains.empty() &&
         batch.observations.empty() && !batch.forget_calibration && batch.done.empty() &&
         std::all_of(batch.records.begin(), batch.records.end(), [](const auto& each) {
           const core::TaskRecord& record = each.second;
           return (record.state == core::TaskState::kQueued && record.attempt == 0) ||
                  record.state == core::TaskState::kLaunching;
         });
}

Result<Unit> Engine::Write(const Batch& batch) {
  if (batch.records.empty() && batch.events.empty() && batch.usage.empty() &&
      batch.drains.empty() && batch.forecasts.empty() && batch.observations.empty() &&
      !batch.forget_calibration) {
    return Unit{};
  }
  Result<Unit> ok = store_.Begin(KnownAgainAfterRestart(batch) ? store::Durability::kLater
                                                               : store::Durability::kNow);
  for (auto it = batch.records.begin(); ok && it != batch.records.end(); ++it) {
    ok = store_.PutRecord(it->second, Uuids(it->second));
  }
  for (auto it = batch.events.begin(); ok && it != batch.events.end(); ++it)
    ok = store_.AddEvent(*it);
  for (auto it = batch.usage.begin(); ok && it != batch.usage.end(); ++it)
    ok = store_.AddUsage(*it);
  for (auto it = batch.forecasts.begin(); ok && it != batch.forecasts.end(); ++it)
    ok = store_.PutForecast(*it);
  for (auto it = batch.observations.begin(); ok && it != batch.observations.end(); ++it)
    ok = store_.AddObservation(*it);
  if (ok && batch.forget_calibration) ok = store_.ForgetCalibration();
  for (auto it = batch.drains.begin(); ok && it != batch.drains.end(); ++it) {
    const auto& [uuid, by_rule] = it->first;
    ok = it->second ? store_.PutDrain({uuid, *it->second, by_rule})
                    : store_.DropDrain(uuid, by_rule);
    if (!ok) break;
    if (!it->second && by_rule && batch.drains.contains({uuid, false})) continue;  // told once
    store::StoredEvent event;
    event.when = clock_.Now();
    event.kind = it->second ? store::EventKind::kDrain : store::EventKind::kResume;
    event.gpu_uuid = uuid;
    event.what = it->second ? "drain" : "resume";
    event.text = it->second.value_or("");
    ok = store_.AddEvent(event);
  }
  if (ok) return store_.Commit();
  store_.Rollback();
  return ok;
}

bool Engine::Flush() {
  if (batch_.Empty()) return true;
  if (Result<Unit> written = Write(batch_); !written) {
    if (store_trouble_.empty()) base::LogError("store_failed", {{"why", written.error().message}});
    store_trouble_ = written.error().message;
    // A person who asked for something hears of it now; decisions wait for the disk.
    for (Done& done : std::exchange(batch_.done, {})) done(std::unexpected(written.error()));
    host_.RetryTurnLater();
    return false;
  }
  if (!store_trouble_.empty()) base::LogInfo("store_works_again");
  store_trouble_.clear();
  Batch batch = std::exchange(batch_, {});
  std::vector<EstimateJob> estimates;
  for (const core::Action& action : batch.actions) Perform(action, estimates);
  new_jobs_.clear();
  if (!estimates.empty()) host_.RequestEstimates(std::move(estimates));
  if (options_.history) {
    for (task::Observation& each : batch.observations) options_.history->Add(std::move(each));
    if (batch.forget_calibration) options_.history->ForgetCalibration();
  }
  for (const auto& [id, record] : batch.records) {
    StartArranged(record);
    if (!core::HoldsGpus(record.state) && record.attempt > 0) {
      attribution_.Remove(id);
      launcher_.Forget(id, record.attempt, AttemptDir(id, record.attempt));
    }
    if (!core::IsFinal(record.state)) continue;
    last_state_.erase(core::Number(id));
    ended_.erase(core::Number(id));
    unclear_.erase(core::Number(id));
  }
  for (Done& done : batch.done) done(Unit{});
  return true;
}

// ---- what goes out ----

void Engine::Perform(const core::Action& action, std::vector<EstimateJob>& estimates) {
  if (const auto* changed = std::get_if<core::TaskChanged>(&action)) {
    host_.TaskChanged(changed->record);
  } else if (const auto* start = std::get_if<core::StartTask>(&action)) {
    Launch(*start);
  } else if (const auto* stop = std::get_if<core::StopTask>(&action)) {
    Stop(*stop);
  } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
    host_.WakeAt(wake->when);
  } else if (const auto* request = std::get_if<core::RequestEstimate>(&action)) {
    Result<EstimateJob> job = JobForEstimate(request->id);
    if (job) {
      estimates.push_back(*std::move(job));
    } else {
      base::LogWarn("estimate_without_spec", {{"task", request->id}, {"why", job.error().message}});
      Post(core::EstimateReady{request->id, std::nullopt});
    }
  }
}

Result<EstimateJob> Engine::JobForEstimate(core::TaskId id) {
  if (auto accepted = new_jobs_.extract(core::Number(id))) return std::move(accepted.mapped());
  Result<store::StoredTask> stored = store_.Get(id);
  if (!stored) return std::unexpected(stored.error());
  Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json);
  if (!spec) return std::unexpected(spec.error());
  return EstimateJob{id, *std::move(spec), stored->record.request.uid, stored->gid};
}

Result<task::LaunchOrder> Engine::OrderFor(const core::StartTask& start) {
  Result<store::StoredTask> stored = store_.Get(start.id);
  if (!stored) return std::unexpected(stored.error());
  Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json);
  if (!spec) return std::unexpected(spec.error());
  task::LaunchOrder order;
  order.id = start.id;
  order.attempt = start.attempt;
  order.attempt_dir = AttemptDir(start.id, start.attempt);
  order.spec = std::move(*spec);
  order.spec.stdout_path = stored->stdout_path;
  order.spec.stderr_path = stored->stderr_path;
  order.uid = stored->record.request.uid;
  order.gid = stored->gid;
  order.user = stored->user;
  for (const core::Placement& placement : start.placement) {
    order.gpu_uuids.push_back(scheduler_.GpuInfos().at(core::Number(placement.gpu)).uuid);
  }
  order.extra_environment = options_.task_environment;
  // Frameworks that take the whole GPU leave no room for neighbours; a user who set these otherwise
  // meant it.
  for (const auto& [name, value] : {std::pair("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
                                    std::pair("XLA_PYTHON_CLIENT_PREALLOCATE", "false")}) {
    if (!start.alone && !order.spec.environment.contains(name))
      order.extra_environment.emplace(name, value);
  }
  order.max_output_bytes = options_.max_output_bytes;
  order.output_rotations = options_.output_rotations;
  order.kill_grace = options_.kill_grace;
  return order;
}

void Engine::Launch(const core::StartTask& start) {
  // A task that starts again in the turn in which it ended is never seen without a process.
  if (start.attempt > 1) {
    launcher_.Forget(start.id, start.attempt - 1, AttemptDir(start.id, start.attempt - 1));
  }
  Result<task::LaunchOrder> order = OrderFor(start);
  if (!order) {
    Post(core::LaunchFailed{start.id, start.attempt, order.error().message, false});
    return;
  }
  if (const std::optional<core::Sharing> sharing = PlainSharing(start)) {
    ApplySharing(*sharing, start.alone, *order);
    return launcher_.Start(*std::move(order));
  }
  const MpsClient client{start.id, start.attempt, SeatOf(order->uid, order->gid, order->gpu_uuids)};
  arranged_[core::Number(start.id)] = {*std::move(order), start, std::nullopt};
  options_.mps->Seat(client, [this, id = start.id, attempt = start.attempt](
                                 const Result<Unit>& seated) { TakeSeat(id, attempt, seated); });
}

void Engine::PollLauncher() {
  launcher_.Poll([this](const task::ShimEvent& event) { TakeShimEvent(event); });
}

void Engine::TakeShimEvent(const task::ShimEvent& event) {
  switch (event.kind) {
    case task::ShimEventKind::kStarted:
      attribution_.Add(event.id, event.process, event.cgroup);
      LogStart(event);
      Post(core::TaskStarted{event.id, event.attempt});
      break;
    case task::ShimEventKind::kLaunchFailed:
      base::LogWarn("launch_failed",
                    {{"task", event.id}, {"attempt", event.attempt}, {"why", event.text}});
      if (options_.mps != nullptr) options_.mps->Leave(event.id, event.attempt);
      Post(core::LaunchFailed{event.id, event.attempt, event.text, event.retryable,
                              event.interrupted});
      break;
    case task::ShimEventKind::kExited:
      NoteEnd(event.id, event.attempt);
      TakeExit(event);
      break;
  }
}

void Engine::LogStart(const task::ShimEvent& event) const {
  const core::TaskRecord* record = scheduler_.Find(event.id);
  base::LogInfo("task_started", {{"task", event.id},
                                 {"attempt", event.attempt},
                                 {"pid", event.process.pid},
                                 {"gpus", record != nullptr ? Indices(*record) : ""}});
}

}  // namespace carma::daemon

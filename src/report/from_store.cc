#include "report/from_store.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/time.h"
#include "core/values/reason_line.h"
#include "report/forecast.h"

namespace carma::report {

using base::Seconds;
using core::TaskState;
using core::Time;

namespace {

AttemptEnd EndOf(TaskState state) {
  switch (state) {
    case TaskState::kSucceeded:
      return AttemptEnd::kSucceeded;
    case TaskState::kOutOfMemory:
      return AttemptEnd::kOutOfMemory;
    case TaskState::kCancelled:
    case TaskState::kTimedOut:
      return AttemptEnd::kStopped;
    default:
      return AttemptEnd::kFailed;
  }
}

// Derives how an attempt ended from the next state and the event's text.
AttemptEnd EndOf(TaskState state, bool was_stopping, const std::string& text) {
  using enum core::ReasonCode;
  const core::ReasonCode code = core::ReasonOfLine(text);
  if (code == kOutOfMemory) return AttemptEnd::kOutOfMemory;
  // A task that checkpoints and exits when asked is requeued without being stopped.
  const bool saved =
      code == kTimeSlot || code == kPreempted || code == kDraining || code == kTimeLimit;
  if (state == TaskState::kQueued && (was_stopping || saved)) return AttemptEnd::kStopped;
  return EndOf(state);
}

}  // namespace

int StoreRun::GpuOf(const std::string& uuid) {
  const auto [found, added] = gpus_.try_emplace(uuid, static_cast<int>(run_.gpus.size()));
  if (added) run_.gpus.push_back({.name = uuid, .usable_mib = 0});
  return found->second;
}

void StoreRun::NameGpu(const std::string& uuid, std::string name, std::string type,
                       std::int64_t usable_mib) {
  RunGpu& gpu = run_.gpus[static_cast<std::size_t>(GpuOf(uuid))];
  gpu.name = std::move(name);
  gpu.type = std::move(type);
  gpu.usable_mib = usable_mib;
}

void StoreRun::Add(const store::StoredTask& stored) {
  const core::TaskRecord& record = stored.record;
  Life& life = lives_[core::Number(record.id)];
  life.task = run_.tasks.size();
  life.started = record.attempt->started;
  life.ooms = record.ooms;
  for (const std::string& uuid : stored.gpu_uuids) life.last_gpus.push_back(GpuOf(uuid));
  std::ranges::sort(life.last_gpus);

  RunTask& task = run_.tasks.emplace_back();
  task.id = core::Number(record.id);
  task.name = stored.name;
  task.group = task.user = stored.user;
  task.gpus = record.request->gpus;
  task.submitted = record.submitted;
  task.state = record.state;
  if (core::IsFinal(record.state)) {
    task.ended = record.ended;
    task.forecasts = ForecastsOf(record);
    // Omits the task's own output, because reports are visible to all users.
    if (record.state != TaskState::kSucceeded)
      task.reason = core::PublicText(record.reason.code, *record.reason.text);
  }
  first_ = std::min(first_.value_or(task.submitted), task.submitted);
  last_ = std::max(last_.value_or(task.submitted), task.ended.value_or(now_));
}

void StoreRun::Add(const store::StoredEvent& event) {
  const bool matters =
      event.kind == store::EventKind::kState || event.kind == store::EventKind::kEdit;
  if (!matters || !event.task) return;
  const auto life = lives_.find(core::Number(*event.task));
  if (life == lives_.end()) return;
  // The only change that an ended task allows is a requeue.
  if (life->second.ended) Requeue(life->second, event.when);
  const std::optional<TaskState> state = core::ParseTaskState(event.what);
  if (state) Step(life->second, event, *state);
}

// A task that never ran counts as submitted when it is requeued.
void StoreRun::Requeue(Life& life, Time when) {
  RunTask& task = run_.tasks[life.task];
  const Time ended = *std::exchange(life.ended, std::nullopt);
  if (task.attempts.empty()) {
    task.submitted = std::max(task.submitted, when);
  } else {
    task.attempts.back().out_of_queue += std::max(core::Duration{0}, when - ended);
  }
}

void StoreRun::Step(Life& life, const store::StoredEvent& event, TaskState state) {
  std::vector<Attempt>& attempts = run_.tasks[life.task].attempts;
  switch (state) {
    case TaskState::kRunning:
      // Ignores a second start event for the same process, stored after a daemon restart.
      if (!std::exchange(life.running, true)) {
        attempts.push_back({.started = event.when, .ended = now_});
        if (!event.gpu_uuid.empty()) attempts.back().gpus = {GpuOf(event.gpu_uuid)};
      }
      return;
    case TaskState::kStopping:
      life.stopping = true;
      return;
    default:
      if (life.running) {
        attempts.back().ended = std::max(attempts.back().started, event.when);
        attempts.back().end = EndOf(state, life.stopping, event.text);
      }
      life.running = life.stopping = false;
      if (core::IsFinal(state)) life.ended = event.when;
  }
}

// Adds data from the task's row that its events lack.
void StoreRun::Settle(const Life& life) {
  RunTask& task = run_.tasks[life.task];
  const bool lives = task.state == TaskState::kRunning || task.state == TaskState::kStopping;
  const bool untold = task.attempts.empty() && life.started && (task.ended || lives);
  if (untold) task.attempts.push_back({.started = *life.started});
  if (task.attempts.empty()) return;
  Attempt& last = task.attempts.back();
  if (untold || life.running) {
    last.ended = std::max(last.started, task.ended.value_or(now_));
    last.end = task.ended ? EndOf(task.state) : AttemptEnd::kUnfinished;
  }
  // A row that does not list the last attempt's GPU describes a later or failed launch, so its GPUs
  // are ignored.
  const bool same = last.gpus.empty() || std::ranges::count(life.last_gpus, last.gpus.front()) > 0;
  if (same) last.gpus = life.last_gpus;
}

// Marks failed attempts as out-of-memory crashes until there are as many as the task's row says. In
// published mode, crashes cannot be told apart from other failures, so the row counts all failures,
// even if the events give other reasons.
void StoreRun::MarkCrashes(const Life& life) {
  std::vector<Attempt>& attempts = run_.tasks[life.task].attempts;
  auto marked = std::ranges::count_if(
      attempts, [](const Attempt& each) { return each.end == AttemptEnd::kOutOfMemory; });
  for (Attempt& attempt : attempts) {
    if (marked >= life.ooms) return;
    if (attempt.end != AttemptEnd::kFailed) continue;
    attempt.end = AttemptEnd::kOutOfMemory;
    ++marked;
  }
}

void StoreRun::Add(const store::EndedAttempt& attempt) {
  const auto life = lives_.find(core::Number(attempt.task));
  if (life != lives_.end()) life->second.attempts.push_back(attempt);
}

// Finds the stored attempt for each attempt known from events. If all attempts are stored, they are
// matched in order. Otherwise, a stored attempt matches if it held its GPUs when the attempt from
// the events started.
void StoreRun::TakeAccounts(const Life& life) {
  std::vector<Attempt>& attempts = run_.tasks[life.task].attempts;
  std::map<int, const store::EndedAttempt*> ran;  // by number
  for (const store::EndedAttempt& each : life.attempts) {
    if (each.started) ran[each.number] = &each;
  }
  const bool by_order = ran.size() == attempts.size();
  auto next = ran.begin();
  for (Attempt& attempt : attempts) {
    const auto held_at_start = [&](const auto& of) {
      return of.second->taken.from <= attempt.started && attempt.started <= of.second->taken.to;
    };
    const auto held = by_order ? next++ : std::ranges::find_if(ran, held_at_start);
    if (held == ran.end()) continue;
    const store::EndedAttempt& stored = *held->second;
    // If the clock was set while the task ran, the times of its events are wrong, but those in
    // `stored` have been corrected.
    if (!held_at_start(*held)) attempt.started = std::min(*stored.started, stored.taken.to);
    // If the attempt ended while carmad was down, its event has the time of carmad's next start.
    const bool runs = attempt.end == AttemptEnd::kUnfinished;
    attempt.ended = runs ? std::max(attempt.started, now_) : stored.taken.to;
    if (stored.promised_mib > 0) attempt.promised_mib = static_cast<double>(stored.promised_mib);
    attempt.gpus.clear();
    for (const std::string& uuid : stored.gpu_uuids) attempt.gpus.push_back(GpuOf(uuid));
    std::ranges::sort(attempt.gpus);
  }
}

// If the clock was set back, a task's earlier times may lie after its later ones. Moves them back,
// so that the attempts follow each other and keep their lengths.
void StoreRun::PutInOrder(RunTask& task) {
  Time next = task.attempts.empty() ? task.ended.value_or(now_) : task.attempts.back().started;
  for (Attempt& attempt : task.attempts | std::views::reverse | std::views::drop(1)) {
    const core::Duration late = std::max(core::Duration{0}, attempt.WaitsFrom() - next);
    attempt.started -= late;
    attempt.ended -= late;
    next = attempt.started;
  }
  task.submitted = std::min(task.submitted, next);
  run_.from = std::min(run_.from, task.submitted);
}

void StoreRun::Add(const store::GpuUsage& usage) {
  if (!first_ || usage.to <= *first_ || usage.from >= *last_ || usage.to <= usage.from) return;
  const auto gpu = static_cast<std::size_t>(GpuOf(usage.gpu_uuid));
  if (covered_until_.size() <= gpu) covered_until_.resize(gpu + 1);
  std::vector<GpuPoint>& points = run_.gpus[gpu].points;
  std::optional<Time>& until = covered_until_[gpu];
  if (until && *until < usage.from) points.push_back({*until, kUnknown, kUnknown, kUnknown});
  const Time from = std::max(usage.from, until.value_or(usage.from));
  if (from >= usage.to) return;
  points.push_back(
      {from, usage.used_mib, usage.sm_active, usage.energy_j / Seconds(usage.to - usage.from)});
  until = usage.to;
}

void StoreRun::Add(const store::LineWait& wait) {
  if (!first_ || wait.to <= *first_ || wait.from >= *last_) return;
  run_.line_waits_s[std::string(core::ReasonName(wait.reason))] += Seconds(wait.waited);
}

RunRecord StoreRun::Finish() {
  run_.from = from();
  run_.to = last_.value_or(now_);
  for (const auto& [id, life] : lives_) {
    Settle(life);
    MarkCrashes(life);
    TakeAccounts(life);
    PutInOrder(run_.tasks[life.task]);
  }
  for (std::size_t gpu = 0; gpu < covered_until_.size(); ++gpu) {
    const std::optional<Time>& until = covered_until_[gpu];
    if (!until || *until >= run_.to) continue;
    run_.gpus[gpu].points.push_back({*until, kUnknown, kUnknown, kUnknown});
  }
  return std::move(run_);
}

}  // namespace carma::report

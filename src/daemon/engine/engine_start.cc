// Starts the engine: reads the store and takes over the tasks of the previous run.
#include <algorithm>
#include <chrono>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/engine/engine.h"
#include "task/describe/spec_json.h"
#include "task/shim/attempt_folder.h"

namespace carma::daemon {

// Finds the GPUs of each placement by UUID, because GPU indexes may have changed since the previous
// run.
Result<core::TaskRecord> Engine::Translated(store::StoredTask stored) {
  core::TaskRecord record = std::move(stored.record);
  core::TaskRequest request = record.request;
  request.user = std::move(stored.user);
  record.request = intake_.Shared(std::move(request));
  std::vector<core::Placement> placement;
  Unmanaged others;
  for (std::size_t i = 0; i < record.attempt->placement.size() && i < stored.gpu_uuids.size();
       ++i) {
    const std::int64_t claim_mib = record.attempt->placement[i].claim_mib;
    if (const std::optional<core::GpuIndex> gpu = GpuByUuid(stored.gpu_uuids[i])) {
      placement.push_back({*gpu, claim_mib});
    } else {
      // A number that no managed GPU has.
      const std::size_t number = scheduler_.GpuInfos().size() + others.uuids.size();
      others.placement.push_back({static_cast<core::GpuIndex>(number), claim_mib});
      others.uuids.push_back(std::move(stored.gpu_uuids[i]));
    }
  }
  if (core::HoldsGpus(record.state) && !others.uuids.empty()) {
    base::LogWarn("gpus_not_managed",
                  {{"task", record.id}, {"gpus", base::Join(others.uuids, ",")}});
    unmanaged_[record.id] = std::move(others);
  }
  if (placement != record.attempt->placement)
    record.attempt.Edit().placement = std::move(placement);
  // An unfinished task that has started keeps the final states of its dependencies, even if one of
  // them has been requeued since.
  if (!record.attempt->launched || core::IsFinal(record.state))
    CARMA_TRY(intake_.FillDependencies(record.request));
  return record;
}

// Adds to the row those GPUs of the running task that are unknown to the core.
void Engine::AddUnmanaged(store::RecordRow& row) {
  const auto found = unmanaged_.find(row.record.id);
  if (found == unmanaged_.end()) return;
  if (!core::HoldsGpus(row.record.state)) {
    unmanaged_.erase(found);
    return;
  }
  const auto& [placement, uuids] = found->second;
  std::vector<core::Placement>& placed = row.record.attempt.Edit().placement;
  placed.insert(placed.end(), placement.begin(), placement.end());
  row.gpu_uuids.insert(row.gpu_uuids.end(), uuids.begin(), uuids.end());
}

// A process always starts a little before its start is reported, so only a larger difference counts
// as a clock change.
constexpr std::chrono::seconds kClockStep{30};

// Corrects the record if the machine's clock has been set since the previous run. Otherwise the
// change would count as run time, so running tasks could be charged for it or reach their time
// limits. Returns true if the new times must be stored. Guessed times are not stored: the clock may
// be wrong only for a while, but stored guesses would remain.
bool Engine::FollowClock(core::TaskRecord& record) const {
  const base::Time now = clock_.Now();
  const base::Time queued = record.queued_since;
  record.queued_since = std::min(queued, now);
  // The pause after a failure begins when the task is requeued, so both times are shifted together.
  if (record.not_before) *record.not_before -= queued - record.queued_since;
  if (!core::HoldsGpus(record.state)) return false;
  const std::optional<base::Time> started = record.attempt->started;
  std::optional<base::Duration> age;
  if (started) age = task::SinceStart(starts_.AttemptDir(record.id, record.attempt->number));
  // If the run time is unknown, as for leases, only a start in the future reveals a clock change.
  base::Duration step =
      now - std::max(now, started.value_or(record.attempt->launched.value_or(now)));
  if (age) {
    const double scale = clock_.Scale();
    const base::Time began = now - std::chrono::duration_cast<base::Duration>(*age * scale);
    // The recorded start is late if carmad was down when the task started. So no correction is
    // needed if the task actually started between the launch and the recorded start.
    const base::Time launched = std::min(record.attempt->launched.value_or(*started), *started);
    step = began - std::clamp(began, launched, *started);
  }
  if (step == base::Duration{0} || (age && std::chrono::abs(clock_.RealSpan(step)) < kClockStep))
    return false;
  base::LogWarn("clock_was_set", {{"task", record.id}, {"by_s", base::Seconds(step)}});
  core::Attempt& its = record.attempt.Edit();
  for (std::optional<base::Time>* each : {&its.launched, &its.started, &its.idle_since, &its.warned,
                                          &its.slot_notice, &its.leaves_by}) {
    if (*each) **each += step;
  }
  if (!age) return false;
  // The wait before the launch keeps its length.
  record.queued_since = queued + step;
  if (its.number == 1) {
    record.submitted += step;
    record.first_start = its.launched;
  } else if (its.launched && record.first_start) {
    // It is unknown how far off the earlier times are, but none of them is after this launch.
    record.first_start = std::min(*record.first_start, *its.launched);
    record.submitted = std::min(record.submitted, *record.first_start);
  }
  return true;
}

Result<Unit> Engine::Start(std::vector<core::GpuInfo> gpus) {
  CARMA_TRY(intake_.Open());
  CARMA_TRY(ends_.Open());
  Collect(scheduler_.HandleAll(
      clock_.Now(), {core::GpusDiscovered{std::move(gpus)}, core::HostDiscovered{options_.host}}));
  std::vector<store::Drain> drains = CARMA_TRY(store_.Drains());
  for (const store::Drain& drain : drains) {
    if (const std::optional<core::GpuIndex> gpu = GpuByUuid(drain.gpu_uuid))
      events_.push_back(core::DrainRequested{*gpu, drain.why, drain.by_rule, drain.empty_by});
  }
  CARMA_TRY(RestoreClosing());
  CARMA_TRY(RestoreReservations());
  CARMA_TRY(RestoreAttempts());
  if (options_.history) {
    std::vector<task::Observation> observations = CARMA_TRY(store_.Observations());
    for (task::Observation& each : observations) options_.history->Add(std::move(each));
  }
  return TakeOver();
}

Result<Unit> Engine::RestoreClosing() {
  const std::optional<store::Closing> kept = CARMA_TRY(store_.ServerClosing());
  if (!kept) return Unit{};
  const std::string& start = options_.machine_start;
  if (start.empty() || kept->machine_start != start) {
    Open();
  } else {
    closing_ = core::ServerClosed{kept->why, kept->empty_by};
    events_.emplace_back(*closing_);
  }
  return Unit{};
}

Result<Unit> Engine::RestoreReservations() {
  std::vector<store::ReservationRow> rows = CARMA_TRY(store_.ReservationBook());
  CARMA_TRY(reservations_.Restore(rows));
  if (!reservations_.all().empty())
    events_.push_back(core::ReservationsChanged{reservations_.Tell(clock_.Now())});
  return Unit{};
}

// Usage older than this many half-lives has almost no effect.
constexpr int kHalfLivesRead = 16;

// Reads the attempts day by day, because hundreds of thousands of them would need hundreds of
// megabytes at once.
Result<Unit> Engine::RestoreAttempts() {
  constexpr core::Duration kDay = std::chrono::hours(24);
  core::Duration span = kHalfLivesRead * options_.policy.fair.half_life;
  for (const core::LimitRule& rule : options_.policy.limits) span = std::max(span, rule.period);
  const core::Time now = clock_.Now();
  for (core::Time from = now - span; from <= now; from += kDay) {
    // The clock may have been ahead when an attempt ended.
    const core::Time to = from + kDay <= now ? from + kDay : core::Time::max();
    std::vector<store::EndedAttempt> attempts = CARMA_TRY(store_.Attempts(from, to));
    std::vector<core::Event> events;
    for (store::EndedAttempt& each : attempts)
      events.emplace_back(core::AttemptRestored{std::move(each.taken)});
    if (!events.empty()) Collect(scheduler_.HandleAll(now, events));
  }
  return Unit{};
}

Result<Unit> Engine::TakeOver() {
  std::vector<store::StoredTask> unfinished = CARMA_TRY(store_.Unfinished());
  std::set<std::pair<core::TaskId, int>> with_process;
  // Tasks are numbered in submission order. If the clock was ahead when a task was submitted, its
  // submission time is set back to that of the next task.
  base::Time next = clock_.Now();
  std::set<core::TaskId> moved;
  for (store::StoredTask& stored : unfinished | std::views::reverse) {
    core::TaskRecord& record = stored.record;
    if (FollowClock(record)) moved.insert(record.id);
    if (record.submitted > clock_.Now()) record.submitted = next;
    next = record.submitted;
  }
  base::Time last{};
  for (store::StoredTask& stored : unfinished) {
    const std::uint32_t gid = stored.gid;
    notices_.JoinIfAsked(stored);
    intake_.NoteOutputs(stored);
    if (task::LeaseSpecIn(stored.spec_json)) passing_.insert(stored.record.id);
    const std::vector<core::Placement> placed = stored.record.attempt->placement;
    core::TaskRecord record = CARMA_TRY(Translated(std::move(stored)));
    // Changed times and GPU numbers must be stored, because carma list shows them.
    const bool followed = moved.contains(record.id);
    bool changed = followed || record.attempt->placement != placed;
    // If a task appears to have been submitted before an older one, the clock was behind at that
    // time.
    if (record.submitted < last && !followed) {
      record.submitted = last;
      record.queued_since = std::max(record.queued_since, last);
      changed = true;
    }
    if (changed) Collect({core::TaskChanged{record}});
    if (!followed) last = record.submitted;
    if (core::HoldsGpus(record.state)) {
      starts_.Adopt(record, gid);
      with_process.emplace(record.id, record.attempt->number);
    }
    events_.push_back(core::TaskRestored{std::move(record)});
  }
  // An earlier carmad may have been killed before it removed the folder of a finished attempt.
  starts_.Sweep([&](core::TaskId id, int attempt) { return with_process.contains({id, attempt}); });
  Turn();
  base::LogInfo("engine_started",
                {{"unfinished", unfinished.size()}, {"with_process", with_process.size()}});
  return Unit{};
}

}  // namespace carma::daemon

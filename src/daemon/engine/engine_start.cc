// After a restart of carmad the engine reads the books and takes over the tasks of the earlier run.
#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "daemon/engine/engine.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {

// GPU indexes of an earlier run may have changed, so the UUIDs are used.
Result<core::TaskRecord> Engine::Translated(store::StoredTask stored) {
  core::TaskRecord record = std::move(stored.record);
  core::TaskRequest request = record.request;
  request.user = std::move(stored.user);
  record.request = intake_.Shared(std::move(request));
  std::vector<core::Placement> placement;
  for (std::size_t i = 0; i < record.attempt->placement.size() && i < stored.gpu_uuids.size();
       ++i) {
    const std::optional<core::GpuIndex> gpu = GpuByUuid(stored.gpu_uuids[i]);
    if (gpu) placement.push_back({*gpu, record.attempt->placement[i].claim_mib});
  }
  if (placement != record.attempt->placement)
    record.attempt.Edit().placement = std::move(placement);
  if (Result<Unit> filled = intake_.FillDependencies(record.request); !filled)
    return std::unexpected(filled.error());
  return record;
}

Result<Unit> Engine::Start(std::vector<core::GpuInfo> gpus) {
  if (Result<Unit> open = intake_.Open(); !open) return open;
  Collect(scheduler_.HandleAll(
      clock_.Now(), {core::GpusDiscovered{std::move(gpus)}, core::HostDiscovered{options_.host}}));
  Result<std::vector<store::Drain>> drains = store_.Drains();
  if (!drains) return std::unexpected(drains.error());
  for (const store::Drain& drain : *drains) {
    if (const std::optional<core::GpuIndex> gpu = GpuByUuid(drain.gpu_uuid))
      events_.push_back(core::DrainRequested{*gpu, drain.why, drain.by_rule, drain.empty_by});
  }
  if (Result<Unit> closing = RestoreClosing(); !closing) return closing;
  if (Result<Unit> booked = RestoreReservations(); !booked) return booked;
  if (Result<Unit> counted = RestoreAttempts(); !counted) return counted;
  if (options_.history) {
    Result<std::vector<task::Observation>> observations = store_.Observations();
    if (!observations) return std::unexpected(observations.error());
    for (task::Observation& each : *observations) options_.history->Add(std::move(each));
  }
  return TakeOver();
}

Result<Unit> Engine::RestoreClosing() {
  const Result<std::optional<store::Closing>> kept = store_.ServerClosing();
  if (!kept) return std::unexpected(kept.error());
  if (!*kept) return Unit{};
  const std::string& start = options_.machine_start;
  if (start.empty() || (*kept)->machine_start != start) {
    Open();
  } else {
    closing_ = core::ServerClosed{(*kept)->why, (*kept)->empty_by};
    events_.emplace_back(*closing_);
  }
  return Unit{};
}

Result<Unit> Engine::RestoreReservations() {
  Result<std::vector<store::ReservationRow>> rows = store_.ReservationBook();
  if (!rows) return std::unexpected(rows.error());
  if (Result<Unit> restored = reservations_.Restore(*rows); !restored) return restored;
  if (!reservations_.all().empty())
    events_.push_back(core::ReservationsChanged{reservations_.Tell(clock_.Now())});
  return Unit{};
}

// Usage older than this many half-lives is negligible.
constexpr int kHalfLivesRead = 16;

Result<Unit> Engine::RestoreAttempts() {
  core::Duration span = kHalfLivesRead * options_.policy.fair.half_life;
  for (const core::LimitRule& rule : options_.policy.limits) span = std::max(span, rule.period);
  Result<std::vector<store::EndedAttempt>> attempts = store_.Attempts(clock_.Now() - span);
  if (!attempts) return std::unexpected(attempts.error());
  for (store::EndedAttempt& each : *attempts)
    events_.push_back(core::AttemptRestored{std::move(each.taken)});
  return Unit{};
}

Result<Unit> Engine::TakeOver() {
  Result<std::vector<store::StoredTask>> unfinished = store_.Unfinished();
  if (!unfinished) return std::unexpected(unfinished.error());
  std::set<std::pair<core::TaskId, int>> with_process;
  for (store::StoredTask& stored : *unfinished) {
    const std::uint32_t gid = stored.gid;
    notices_.JoinIfAsked(stored);
    if (task::LeaseSpecIn(stored.spec_json)) passing_.insert(stored.record.id);
    Result<core::TaskRecord> record = Translated(std::move(stored));
    if (!record) return std::unexpected(record.error());
    if (core::HoldsGpus(record->state)) {
      starts_.Adopt(*record, gid);
      with_process.emplace(record->id, record->attempt->number);
    }
    events_.push_back(core::TaskRestored{std::move(*record)});
  }
  // A carmad killed between an end and the removal of its folder has left the folder.
  starts_.Sweep([&](core::TaskId id, int attempt) { return with_process.contains({id, attempt}); });
  Turn();
  base::LogInfo("engine_started",
                {{"unfinished", unfinished->size()}, {"with_process", with_process.size()}});
  return Unit{};
}

}  // namespace carma::daemon

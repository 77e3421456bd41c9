// Handles the engine's requests other than submissions: closing the server, reservations,
// requeueing and edits. Also finds the task of a process that makes a request.

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/history_events.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {

void Engine::Drain(const core::DrainRequested& drain, Done done) {
  const std::string& uuid = scheduler_.GpuInfos().at(core::Number(drain.gpu)).uuid;
  next_.rows.drains[{uuid, drain.by_rule}] = store::DrainReason{drain.why, drain.empty_by};
  Post(drain, std::move(done));
}

void Engine::Resume(const core::ResumeRequested& resume, Done done) {
  const std::string& uuid = scheduler_.GpuInfos().at(core::Number(resume.gpu)).uuid;
  next_.rows.drains[{uuid, true}] = std::nullopt;
  if (!resume.by_rule) next_.rows.drains[{uuid, false}] = std::nullopt;
  Post(resume, std::move(done));
}

void Engine::Close(const core::ServerClosed& closing, Done done) {
  closing_ = closing;
  next_.rows.closings = {store::Closing{closing.why, closing.empty_by, options_.machine_start}};
  next_.rows.events.push_back(DrainEvent("", closing.why, clock_.Now()));
  Post(closing, std::move(done));
}

void Engine::Open(Done done) {
  closing_.reset();
  next_.rows.closings = {std::nullopt};
  next_.rows.events.push_back(DrainEvent("", std::nullopt, clock_.Now()));
  Post(core::ServerOpened{}, std::move(done));
}

Result<core::ReservationId> Engine::Book(core::Reservation booking, Done done) {
  const core::Reservation made =
      CARMA_TRY(reservations_.Add(std::move(booking), scheduler_.GpuInfos(), clock_.Now()));
  next_.rows.reservations.push_back(daemon::RowOf(made));
  next_.rows.events.push_back(ReserveEvent(made, "", clock_.Now()));
  Post(core::ReservationsChanged{reservations_.Tell(clock_.Now())}, std::move(done));
  return made.id;
}

Result<Unit> Engine::Unbook(core::ReservationId id, const std::string& who, Done done) {
  const core::Reservation* known = reservations_.Find(id);
  if (known == nullptr) return NotFound("there is no reservation {}", id);
  next_.rows.reservations.push_back({id, known->made_by, std::nullopt});
  next_.rows.events.push_back(ReserveEvent(*known, who, clock_.Now()));
  reservations_.Remove(id);
  Post(core::ReservationsChanged{reservations_.Tell(clock_.Now())}, std::move(done));
  return Unit{};
}

void Engine::Note(core::TaskId id, const std::string& what) {
  next_.rows.events.push_back(EditEvent(id, what, clock_.Now()));
}

void Engine::Requeue(core::TaskId id, const std::string& what, Done done) {
  if (scheduler_.Find(id) != nullptr || intake_.IsUntold(id)) {
    Note(id, what);
    Post(core::RequeueRequested{id}, std::move(done));
    return;
  }
  Result<store::StoredTask> stored = store_.Get(id);
  if (!stored) return done(std::unexpected(stored.error()));
  const std::uint32_t uid = stored->record.request->uid;
  const auto returns = std::ranges::count_if(events_, [uid](const core::Event& event) {
    const auto* restored = std::get_if<core::TaskRestored>(&event);
    return restored != nullptr && restored->record.request->uid == uid;
  });
  core::TaskRequest request = stored->record.request;
  request.user = stored->user;  // limits and accounts name users
  if (const Result<Unit> may =
          intake_.CheckReturn(request, stored->name, static_cast<std::size_t>(returns));
      !may)
    return done(std::unexpected(may.error()));
  notices_.JoinIfAsked(*stored);
  Result<core::TaskRecord> record = Translated(std::move(*stored));
  if (!record) return done(std::unexpected(record.error()));
  core::TaskRecord fresh = core::AsSubmitted(*std::move(record));
  fresh.reason = {core::ReasonCode::kRequeuedByUser, "Sent back to the queue on request."};
  fresh.queued_since = clock_.Now();
  Note(id, what);
  Collect({core::TaskChanged{fresh}});
  Post(core::TaskRestored{std::move(fresh)}, std::move(done));
}

// True if an earlier change to the task is still waiting for a turn or is not durable yet.
bool Engine::IsBeingChanged(core::TaskId id) const {
  const auto is_edit = [&](const store::EditedDescription& edit) { return edit.task == id; };
  const auto changes_priority = [&](const core::Event& event) {
    const auto* changed = std::get_if<core::PriorityChanged>(&event);
    return changed != nullptr && changed->id == id;
  };
  return std::ranges::any_of(next_.rows.descriptions, is_edit) ||
         std::ranges::any_of(decided_.rows.descriptions, is_edit) ||
         std::ranges::any_of(events_, changes_priority);
}

Result<base::CopyOnWrite<core::TaskRequest>> Engine::CheckEdit(core::TaskId id,
                                                               const task::TaskSpec& was,
                                                               const task::TaskSpec& wanted) {
  const core::TaskRecord* record = scheduler_.Find(id);
  if (record == nullptr) return Unavailable("task {} is still being accepted; try again", id);
  if (IsBeingChanged(id)) return Unavailable("task {} is being changed; try again", id);
  const bool estimating = record->state == core::TaskState::kEstimating;
  if (estimating && (wanted.memory_mib != was.memory_mib || wanted.gpus != was.gpus))
    return Unavailable("the memory of task {} is being estimated; try again", id);
  return intake_.CheckEdit(*record, was, wanted);
}

void Engine::Edit(core::TaskId id, const task::TaskSpec& wanted,
                  base::CopyOnWrite<core::TaskRequest> edited, const std::string& what, Done done) {
  if (wanted.notify.empty()) {
    notices_.Leave(id);
  } else {
    notices_.Join(id, edited->array);
  }
  next_.rows.descriptions.push_back({id, wanted.name, task::ToJsonText(wanted)});
  if (!what.empty()) Note(id, what);
  Post(core::TaskEdited{id, std::move(edited)}, std::move(done));
}

std::optional<core::TaskId> Engine::TaskOfProcess(pid_t pid) {
  PollLauncher();
  const SeenProcess seen = SeeProcess(pid);
  if (const std::optional<core::TaskId> task = attribution_.Find(pid, seen)) return task;
  // A task's program may already be running although its shim has not reported the start yet.
  for (const base::ProcessId& process : seen.line) {
    if (const std::optional<core::TaskId> task = launcher_.TaskOfShim(process)) return task;
  }
  return std::nullopt;
}

}  // namespace carma::daemon

// Which tasks must leave their GPUs for others and are requeued.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "core/forecast/preemption_plan.h"
#include "core/policy/slots.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

// Samples arrive every second for each GPU; the plan for the whole server is made at most this
// often.
constexpr Duration kLooksApart{1'000};
// Maximum number of queued tasks for which room is made.
constexpr std::size_t kRoomLooks = 32;
// How long a freed place is kept for its task, which may have to wait for a sample or until the
// activity window no longer includes the task that left.
constexpr Duration kPlaceKept{120'000};

}  // namespace

bool Scheduler::State::AnyTurns() const {
  return config.pacing == Pacing::kImmediate &&
         (config.slots.length || std::ranges::any_of(config.classes, &QosClass::preempts));
}

void Scheduler::State::WakeForTurns(Time when) {
  if (when > now) next_turn = std::min(next_turn.value_or(when), when);
}

void Scheduler::State::AskToLeave(TaskRecord& task, StopCause cause, Time by) {
  if (task.attempt->leaves_by && *task.attempt->leaves_by <= by) return;
  Attempt& attempt = task.attempt.Edit();
  const bool known = attempt.leaves_by.has_value();
  attempt.slot_notice = attempt.slot_notice.value_or(now);
  attempt.notice_cause = cause;
  attempt.leaves_by = by;
  leaving.insert(task.id);
  Keep(task);
  if (!known) actions.emplace_back(AskToSave{task.id, task.attempt->number});
}

// The request stays recorded, because the task may still act on it.
void Scheduler::State::CancelPreemption(TaskRecord& task) {
  task.attempt.Edit().leaves_by.reset();
  leaving.erase(task.id);
  Keep(task);
}

// The reason for leaving, shown when it waits again.
Reason Scheduler::State::ReasonToLeave(const TaskRecord& task) const {
  const auto whom = room_for.find(task.id);
  const std::string other =
      whom == room_for.end() ? "another task" : fmt::format("task {}", whom->second);
  switch (task.attempt->notice_cause) {
    case StopCause::kPreempted:
      return {ReasonCode::kPreempted,
              fmt::format("Made room for {}, whose class preempts.", other)};
    case StopCause::kDrained:
      if (closing) return ReasonOfShutdown(task);
      return {ReasonCode::kDraining,
              task.attempt->leaves_by ? fmt::format("Its GPU was to be empty by {}.",
                                                    base::FormatTimeIso(*task.attempt->leaves_by))
                                      : "It was asked to save when its GPU was to be empty."};
    default:
      return {ReasonCode::kTimeSlot,
              fmt::format(
                  "Its turn of {} was over, and {} waited for its place.",
                  base::FormatSpan(config.slots.length ? TurnOf(config.slots, task) : Duration{0}),
                  other)};
  }
}

Reason Scheduler::State::ReasonOfLeaving(const TaskRecord& task) const {
  const auto whom = room_for.find(task.id);
  std::string why;
  if (whom != room_for.end()) {
    why = fmt::format(": task {} waits for its place", whom->second);
  } else if (closing) {
    why = fmt::format(", for the server is {}", closing->why);
  }
  return {ReasonToLeave(task).code,
          fmt::format("It was asked to save and has to end by {}{}.",
                      base::FormatTimeIso(*task.attempt->leaves_by), why)};
}

void Scheduler::State::StopAsked(TaskRecord& task) {
  Stop(task, task.attempt->notice_cause, ReasonToLeave(task));
}

// The task has left its GPUs (those of its placement).
void Scheduler::State::GoOnLater(TaskRecord& task, Reason reason) {
  const auto made_for = room_for.extract(task.id);
  for (const Placement& each : task.attempt->placement) {
    if (made_for.empty() || Number(each.gpu) >= gpus.size()) continue;
    gpus[Number(each.gpu)].kept_place = KeptPlace{made_for.mapped(), now + kPlaceKept};
  }
  Enqueue(task, QueueKind::kMain, std::move(reason));
}

bool Scheduler::State::GoesOnLater(const TaskRecord& task) const {
  const Attempt& attempt = task.attempt;
  if (!task.request->requeue || (!attempt.slot_notice && !attempt.warned)) return false;
  if (!SaysItSaved(config.slots, task.request, task.exit)) return false;
  // The warning signal before a time limit ends many programs that cannot checkpoint.
  return attempt.slot_notice || task.exit->signal == 0;
}

void Scheduler::State::EndSaved(TaskRecord& task) {
  ++task.checkpoints;
  if (task.attempt->slot_notice) return GoOnLater(task, ReasonToLeave(task));
  GoOnLater(task, {ReasonCode::kTimeLimit,
                   fmt::format("Saved before its time limit of {}, to go on.",
                               base::FormatSpan(task.request->time_limit.value_or(Duration{0})))});
}

// A remark for its owner: a task that does not checkpoint makes no progress.
std::string Scheduler::State::WhatItCost(const TaskRecord& task) const {
  if (task.checkpoints > 0) return "";
  if (task.request->checkpoint_signal) {
    if (task.cut_off == 1) return "";
    return fmt::format(
        " {} times it did not end by itself when {} asked it to save; what it has not saved it "
        "does "
        "again.",
        task.cut_off, CheckpointSignal(config.slots, task.request));
  }
  if (!config.slots.length || !TakesTurns(config.slots, task))
    return " It is not known to checkpoint, and starts over.";
  return fmt::format(" It is not known to checkpoint, and starts over; its next time slice is {}.",
                     base::FormatSpan(TurnOf(config.slots, task)));
}

void Scheduler::State::EndAsked(TaskRecord& task, Reason reason) {
  if (!task.request->requeue) {
    const bool with_machine = reason.code == ReasonCode::kNodeFail;
    return Finish(task, with_machine ? TaskState::kLost : TaskState::kCancelled, std::move(reason));
  }
  ++task.cut_off;
  reason.text.Edit() += WhatItCost(task);
  GoOnLater(task, std::move(reason));
}

// ---- GPUs that must become empty ----

bool Scheduler::State::MustBeEmpty(GpuIndex gpu) const {
  const GpuState& state = gpus[Number(gpu)];
  return state.empty_by && now >= *state.empty_by - config.slots.notice;
}

void Scheduler::State::EmptyDrained() {
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    const std::optional<Time> by = gpus[i].empty_by;
    if (!by) continue;
    WakeForTurns(*by - config.slots.notice);
    if (!MustBeEmpty(GpuIndex{i})) continue;
    for (const Resident& each : ledger.ResidentsOf(GpuIndex{i})) {
      TaskRecord& task = tasks.at(each.task);
      if (task.state == TaskState::kRunning) AskToLeave(task, StopCause::kDrained, *by);
    }
  }
  for (const TaskId id : std::vector<TaskId>(leaving.begin(), leaving.end())) {
    TaskRecord& task = tasks.at(id);
    if (task.attempt->notice_cause != StopCause::kDrained) continue;
    const std::span<const GpuIndex> held = ledger.GpusOf(id);
    if (!MustAllLeave() &&
        std::ranges::none_of(held, [&](GpuIndex gpu) { return MustBeEmpty(gpu); })) {
      CancelPreemption(task);  // it was opened again, or is to be empty later
    } else if (*task.attempt->leaves_by <= now) {
      StopAsked(task);
    }
  }
}

// ---- room for waiting tasks ----

double Scheduler::State::ShareOf(const TaskRequest& request, double without) const {
  const std::string user = UserOf(request);
  const FairShare::Use use = request.account ? shares.OfAccount(*request.account, now)
                                             : shares.OfHolder(HolderOf(request), now);
  const double weight = shares.WeightOf(request.account ? "@" + *request.account : user);
  return (use.seconds + std::max(0.0, use.rate - without) * base::Seconds(kRunsOn)) / weight;
}

// Would the waiting task be ahead of it in the queue, if it were requeued?
bool Scheduler::State::YieldsTo(const TaskRecord& running, const TaskRecord& waiting) const {
  if (PriorityOf(config, running.request) > PriorityOf(config, waiting.request)) return false;
  if (config.order == QueueOrder::kFifo || HolderOf(running.request) == HolderOf(waiting.request))
    return true;
  // By then it uses nothing any more.
  return ShareOf(running.request, RateNow(running)) >= ShareOf(waiting.request, 0);
}

StopCause Scheduler::State::LeavesFor(const TaskRecord& running, const TaskRecord& waiting) const {
  if (running.state != TaskState::kRunning) return StopCause::kNone;
  const QosClass* const mine = ClassOf(config.classes, running.request);
  const QosClass* const other = ClassOf(config.classes, waiting.request);
  if (mine != nullptr && other != nullptr && mine->preemptible && other->preempts &&
      running.request->requeue &&
      PriorityOf(config, running.request) < PriorityOf(config, waiting.request)) {
    return StopCause::kPreempted;
  }
  const std::optional<Time> over = TurnOver(config.slots, running);
  if (over && *over <= now && YieldsTo(running, waiting)) return StopCause::kTimeSlot;
  return StopCause::kNone;
}

// Candidates that may have to leave for it: first those already asked, by their deadline, so that
// an earlier waiting task does not depend on later requests; then preemptible ones, lowest priority
// and least run time first; then those whose time slice began first.
std::vector<TaskId> Scheduler::State::LeaversFor(const TaskRecord& waiting) const {
  struct Leaver {
    Time leaves_by = Time::max();  // where it knows
    bool turn = false;
    std::int64_t priority = 0;
    Duration behind{};
    TaskId task{};
  };
  std::vector<Leaver> leavers;
  for (const auto& [id, gpus_of] : ledger.Tasks()) {
    const TaskRecord& task = tasks.at(id);
    const StopCause cause = LeavesFor(task, waiting);
    if (cause == StopCause::kNone) continue;
    const bool turn = cause == StopCause::kTimeSlot;
    const Duration ran = now - *task.attempt->started;
    leavers.push_back({.leaves_by = task.attempt->leaves_by.value_or(Time::max()),
                       .turn = turn,
                       .priority = turn ? 0 : PriorityOf(config, task.request),
                       .behind = turn ? -ran : ran,
                       .task = id});
  }
  std::ranges::stable_sort(leavers, {}, [](const Leaver& each) {
    return std::tuple(each.leaves_by, each.turn, each.priority, each.behind);
  });
  std::vector<TaskId> ids;
  for (const Leaver& each : leavers) ids.push_back(each.task);
  return ids;
}

PreemptionPlan Scheduler::State::PreemptionPlanNow() const {
  PreemptionPlan room(config);
  const Time plateau_from = PlateauFrom(now);
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    const GpuView view = ViewOf(GpuIndex{i}, now);
    std::vector<PlannedTask> there;
    std::size_t place = 0;
    for (const Resident& each : ledger.ResidentsOf(GpuIndex{i})) {
      there.push_back({.task = each.task,
                       .promised_mib = PromiseOf(each, plateau_from),
                       .exclusive = IsExclusive(each),
                       .sm_share = each.sm_share,
                       .load = view.residents[place],
                       .uid = view.users[place]});
      ++place;
    }
    room.Add(view, std::move(there));
  }
  for (const auto& [id, gpus_of] : ledger.Tasks()) {
    if (tasks.at(id).state == TaskState::kStopping) room.Leave(id);
  }
  return room;
}

void Scheduler::State::PlanPreemptions() {
  planned_preemptions = now;
  room_for.clear();
  PreemptionPlan room = PreemptionPlanNow();
  int stuck = 0;
  for (const TaskId id : InLine(LineKind::kWithGpus, kRoomLooks)) {
    const TaskRecord& waiting = tasks.at(id);
    const Need need = NeedNow(waiting);
    // A task that lacks cores of the machine would still wait if another left its GPU.
    if (need.gpus == 0 || IsLimited(waiting) || !HostTakes(id, need.host)) continue;
    if (room.Take(need)) continue;  // all it waits for is a sample
    const auto who = room.WhoMustLeave(need, LeaversFor(waiting));
    if (!who) {
      // As far as the queue is considered for starts; tasks in recovery block no others.
      if (waiting.queue == QueueKind::kMain && ++stuck >= config.backfill) break;
      continue;
    }
    for (const TaskId each : *who) {
      TaskRecord& task = tasks.at(each);
      const StopCause cause = LeavesFor(task, waiting);
      room.Leave(each);
      room_for[each] = id;
      const bool preempted = cause == StopCause::kPreempted;
      AskToLeave(task, cause,
                 now + (preempted ? config.slots.preempt_notice : config.slots.notice));
    }
    room.Take(need);
  }
}

void Scheduler::State::MakeRoom() {
  const bool anyone = !queue.Main().empty() || !queue.Recovery().empty();
  if (!anyone || closing || !AnyTurns() || launch_trouble.on()) {
    room_for.clear();
    return;
  }
  bool due = false;
  bool may_leave = false;
  for (const auto& [id, gpus_of] : ledger.Tasks()) {
    const TaskRecord& task = tasks.at(id);
    const std::optional<Time> over = TurnOver(config.slots, task);
    const QosClass* const of = ClassOf(config.classes, task.request);
    may_leave |= (over && *over <= now) || (of != nullptr && of->preemptible);
    if (over) WakeForTurns(*over);
    due |= task.attempt->leaves_by && *task.attempt->leaves_by <= now;
  }
  if (!may_leave) return room_for.clear();
  if (!due && planned_preemptions && now < *planned_preemptions + kLooksApart &&
      now > *planned_preemptions)
    return WakeForTurns(*planned_preemptions + kLooksApart);
  PlanPreemptions();
}

void Scheduler::State::TakeTurns() {
  next_turn.reset();
  EmptyServer();
  EmptyDrained();
  MakeRoom();
  for (const TaskId id : std::vector<TaskId>(leaving.begin(), leaving.end())) {
    TaskRecord& task = tasks.at(id);
    WakeForTurns(*task.attempt->leaves_by);
    if (*task.attempt->leaves_by > now || task.attempt->notice_cause == StopCause::kDrained)
      continue;
    // The task it was for may have found another place meanwhile.
    if (room_for.contains(id)) {
      StopAsked(task);
    } else {
      CancelPreemption(task);
    }
  }
  for (GpuState& gpu : gpus) {
    if (gpu.kept_place && gpu.kept_place->until > now)
      WakeForTurns(gpu.kept_place->until);
    else
      gpu.kept_place.reset();
  }
}

std::optional<TaskId> Scheduler::State::KeptFor(const GpuState& gpu, Time at) const {
  if (!gpu.kept_place || at >= gpu.kept_place->until ||
      queue.PlaceOf(gpu.kept_place->task) != Place::kEligible) {
    return std::nullopt;
  }
  // A task ahead of it may have found no other place.
  if (FirstOnly() && passed.task && *passed.task != gpu.kept_place->task) return std::nullopt;
  return gpu.kept_place->task;
}

// The reason shown for a requeued task, and for one that room is made for.
Reason Scheduler::State::WithTurns(const TaskRecord& task, Reason reason) const {
  const auto made = std::ranges::find(room_for, task.id, &std::pair<const TaskId, TaskId>::second);
  if (made != room_for.end()) {
    const auto leaver = tasks.find(made->first);
    if (leaver != tasks.end() && leaver->second.attempt->leaves_by) {
      reason.text.Edit() +=
          fmt::format(" Task {} was asked to save and leaves its place to it by {}.", made->first,
                      base::FormatTimeIso(*leaver->second.attempt->leaves_by));
    }
  }
  const ReasonCode came_back = task.reason.code;
  if (came_back == ReasonCode::kTimeSlot || came_back == ReasonCode::kPreempted)
    return {came_back, *task.reason.text + " " + *reason.text};
  return reason;
}

}  // namespace carma::core

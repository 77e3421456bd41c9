#include "core/scheduler/time_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "core/forecast/preemption_plan.h"
#include "core/policy/slots.h"
#include "core/scheduler/expecting.h"
#include "core/scheduler/host_line.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/planned_books.h"
#include "core/scheduler/repeats.h"
#include "core/scheduler/task_life.h"

namespace carma::core {
namespace {

// Minimum time between two plans for the whole server. Without it, every sample of every GPU would
// cause a new plan.
constexpr Duration kLooksApart{1'000};
// Maximum number of queued tasks for which running tasks are asked to make room.
constexpr std::size_t kRoomLooks = 32;
// How long freed GPUs are kept for a task after the last of them has become free. The task may have
// to wait for a sample, or for an activity window that no longer includes the task that left.
constexpr Duration kPlaceKept{120'000};

// True if the policy uses time slices or preemption.
bool AnyTurns(const State& state) {
  return state.config.pacing == Pacing::kImmediate &&
         (state.config.slots.length ||
          std::ranges::any_of(state.config.classes, &QosClass::preempts));
}

// Why the task left its GPUs. Shown while it waits again.
Reason ReasonToLeave(const State& state, const TaskRecord& task) {
  const auto whom = state.preemptions.room_for.find(task.id);
  const std::string other = whom == state.preemptions.room_for.end()
                                ? "another task"
                                : fmt::format("task {}", whom->second);
  switch (task.attempt->notice_cause) {
    case StopCause::kPreempted:
      return {ReasonCode::kPreempted,
              fmt::format("Made room for {}, whose class may preempt other tasks.", other)};
    case StopCause::kDrained:
      if (state.closing) return ReasonOfShutdown(state, task);
      return {ReasonCode::kDraining,
              task.attempt->leaves_by
                  ? fmt::format("Its GPU had to be vacated by {}.",
                                base::FormatTimeIso(*task.attempt->leaves_by))
                  : "It was asked to checkpoint because its GPU had to be vacated."};
    default:
      return {
          ReasonCode::kTimeSlot,
          fmt::format("Its time slice of {} was over, and {} was waiting to take its place.",
                      base::FormatSpan(state.config.slots.length ? TurnOf(state.config.slots, task)
                                                                 : Duration{0}),
                      other)};
  }
}

// Requeues a task that has left its GPUs.
void GoOnLater(State& state, TaskRecord& task, Reason reason) {
  const auto made_for = state.preemptions.room_for.extract(task.id);
  for (const Placement& each : task.attempt->placement) {
    if (made_for.empty() || Number(each.gpu) >= state.gpus.all.size()) continue;
    state.gpus.all[Number(each.gpu)].kept_place =
        KeptPlace{made_for.mapped(), state.now + kPlaceKept};
  }
  state.Enqueue(task, QueueKind::kMain, std::move(reason));
}

// Warning to the owner that the task loses its progress. Empty if the task has checkpointed.
std::string WhatItCost(const State& state, const TaskRecord& task) {
  if (task.checkpoints > 0) return "";
  if (task.request->checkpoint_signal) {
    if (task.cut_off == 1) return "";
    return fmt::format(
        " It was sent {1} {0} times but did not exit, so it will repeat any work that it has not "
        "saved.",
        task.cut_off, CheckpointSignal(state.config.slots, task.request));
  }
  if (!state.config.slots.length || !TakesTurns(state.config.slots, task))
    return " It is not known to checkpoint, so it starts over.";
  return fmt::format(
      " It is not known to checkpoint, so it starts over; its next time slice lasts {}.",
      base::FormatSpan(TurnOf(state.config.slots, task)));
}

bool MustBeEmpty(const State& state, GpuIndex gpu) {
  const std::optional<Time>& by = state.gpus.all[Number(gpu)].empty_by;
  return by && state.now >= *by - state.config.slots.notice;
}

void EmptyDrained(State& state) {
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    const std::optional<Time> by = state.gpus.all[i].empty_by;
    if (!by) continue;
    WakeForTurns(state, *by - state.config.slots.notice);
    if (!MustBeEmpty(state, GpuIndex{i})) continue;
    for (const Resident& each : state.ledger.ResidentsOf(GpuIndex{i})) {
      TaskRecord& task = state.tasks.at(each.task);
      if (task.state == TaskState::kRunning) AskToLeave(state, task, StopCause::kDrained, *by);
    }
  }
  for (const TaskId id :
       std::vector<TaskId>(state.preemptions.leaving.begin(), state.preemptions.leaving.end())) {
    TaskRecord& task = state.tasks.at(id);
    if (task.attempt->notice_cause != StopCause::kDrained) continue;
    const std::span<const GpuIndex> held = state.ledger.GpusOf(id);
    if (!MustAllLeave(state) &&
        std::ranges::none_of(held, [&](GpuIndex gpu) { return MustBeEmpty(state, gpu); })) {
      CancelPreemption(state, task);  // the GPU was opened again, or its deadline was moved
    } else if (*task.attempt->leaves_by <= state.now) {
      StopAsked(state, task);
    }
  }
}

// The usage of the request's account or user divided by its weight, as in LineUp. `without` is
// subtracted from the current rate.
double ShareOf(const State& state, const TaskRequest& request, double without) {
  const std::string user = UserOf(request);
  const FairShare::Use use = request.account ? state.shares.OfAccount(*request.account, state.now)
                                             : state.shares.OfHolder(HolderOf(request), state.now);
  const double weight = state.shares.WeightOf(request.account ? "@" + *request.account : user);
  return (use.seconds + std::max(0.0, use.rate - without) * base::Seconds(kRunsOn)) / weight;
}

// True if the running task, once requeued, would be behind the waiting task in the queue.
bool YieldsTo(const State& state, const TaskRecord& running, const TaskRecord& waiting) {
  if (PriorityOf(state.config, running.request) > PriorityOf(state.config, waiting.request))
    return false;
  if (state.config.order == QueueOrder::kFifo ||
      HolderOf(running.request) == HolderOf(waiting.request))
    return true;
  // Requeueing the running task would end its usage, so its current rate is subtracted.
  return ShareOf(state, running.request, RateNow(state, running)) >=
         ShareOf(state, waiting.request, 0);
}

StopCause LeavesFor(const State& state, const TaskRecord& running, const TaskRecord& waiting) {
  if (running.state != TaskState::kRunning) return StopCause::kNone;
  const QosClass* const mine = ClassOf(state.config.classes, running.request);
  const QosClass* const other = ClassOf(state.config.classes, waiting.request);
  if (mine != nullptr && other != nullptr && mine->preemptible && other->preempts &&
      running.request->requeue &&
      PriorityOf(state.config, running.request) < PriorityOf(state.config, waiting.request)) {
    return StopCause::kPreempted;
  }
  const std::optional<Time> over = TurnOver(state.config.slots, running);
  if (over && *over <= state.now && YieldsTo(state, running, waiting)) return StopCause::kTimeSlot;
  return StopCause::kNone;
}

// The tasks that may have to leave for the waiting task, in this order:
// - tasks already asked to leave, earliest deadline first, so that asking more tasks to leave does
//   not change which tasks leave for a waiting task further ahead;
// - preemptible tasks, lowest priority and shortest run time first;
// - tasks with time slices, by the start of the slice.
std::vector<TaskId> LeaversFor(const State& state, const TaskRecord& waiting) {
  struct Leaver {
    Time leaves_by = Time::max();  // deadline, if it was already asked to leave
    bool turn = false;
    std::int64_t priority = 0;
    Duration behind{};
    TaskId task{};
  };
  std::vector<Leaver> leavers;
  for (const auto& [id, gpus_of] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    const StopCause cause = LeavesFor(state, task, waiting);
    if (cause == StopCause::kNone) continue;
    const bool turn = cause == StopCause::kTimeSlot;
    const Duration ran = state.now - *task.attempt->started;
    leavers.push_back({.leaves_by = task.attempt->leaves_by.value_or(Time::max()),
                       .turn = turn,
                       .priority = turn ? 0 : PriorityOf(state.config, task.request),
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

// False if the task would still wait even with free GPUs, because of a limit or for lack of cores
// or host memory.
bool WaitsForGpus(const State& state, const TaskRecord& task) {
  return !IsLimited(state, task) &&
         HostTakes(state, task.id, HostNeedOf(state.config, task.request));
}

void PlanPreemptions(State& state) {
  state.preemptions.planned = state.now;
  // A task that is already being stopped keeps making room for the same waiting task.
  std::erase_if(state.preemptions.room_for, [&state](const auto& each) {
    const TaskRecord* leaver = state.Held(each.first);
    return leaver == nullptr || leaver->state != TaskState::kStopping;
  });
  PreemptionPlan room = PreemptionPlanNow(state);
  PlannedBooks books(state);
  int stuck = 0;
  // A task that a limit would keep waiting also keeps the tasks behind it in its line waiting.
  std::set<LineKey> limited;
  for (const TaskId id : InLine(state, LineKind::kWithGpus, kRoomLooks)) {
    const TaskRecord& waiting = state.tasks.at(id);
    const Need need = NeedNow(state, waiting);
    const bool in_line = waiting.queue == QueueKind::kMain;
    if (in_line && limited.contains(LineOf(waiting))) continue;
    if (need.gpus == 0 || !WaitsForGpus(state, waiting)) continue;
    // An empty list means that the task only waits for a sample.
    const auto who = room.WhoMustLeave(need, LeaversFor(state, waiting));
    if (!who) {
      // Once the number of stuck tasks reaches config.backfill, no task behind them may start.
      // Recovery tasks do not count, because they do not block other tasks.
      if (in_line && ++stuck >= state.config.backfill) break;
      continue;
    }
    PlannedBooks after = books;
    for (const TaskId each : *who) after.Leave(state.tasks.at(each));
    if (after.IsLimited(state, waiting, need)) {
      if (in_line) limited.insert(LineOf(waiting));
      continue;
    }
    if (!after.Start(state, waiting, need)) continue;
    books = std::move(after);
    for (const TaskId each : *who) {
      TaskRecord& task = state.tasks.at(each);
      const StopCause cause = LeavesFor(state, task, waiting);
      room.Leave(each);
      state.preemptions.room_for[each] = id;
      const bool preempted = cause == StopCause::kPreempted;
      AskToLeave(
          state, task, cause,
          state.now + (preempted ? state.config.slots.preempt_notice : state.config.slots.notice));
    }
    room.Take(need);
  }
}

void MakeRoom(State& state) {
  const bool anyone = !state.queue.Main().empty() || !state.queue.Recovery().empty();
  if (!anyone || state.closing || !AnyTurns(state) || state.launch_trouble.on()) {
    state.preemptions.room_for.clear();
    return;
  }
  bool due = false;
  bool may_leave = false;
  for (const auto& [id, gpus_of] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    const std::optional<Time> over = TurnOver(state.config.slots, task);
    const QosClass* const of = ClassOf(state.config.classes, task.request);
    may_leave |= (over && *over <= state.now) || (of != nullptr && of->preemptible);
    if (over) WakeForTurns(state, *over);
    due |= task.attempt->leaves_by && *task.attempt->leaves_by <= state.now;
  }
  if (!may_leave) return state.preemptions.room_for.clear();
  if (!due && state.preemptions.planned && state.now < *state.preemptions.planned + kLooksApart &&
      state.now > *state.preemptions.planned)
    return WakeForTurns(state, *state.preemptions.planned + kLooksApart);
  PlanPreemptions(state);
}

// A freed GPU is kept until all tasks that make room for the same waiting task have left. Once
// another task is first in the queue, the GPU is kept for at most kPlaceKept longer.
void KeepPlaces(State& state) {
  std::optional<std::vector<TaskId>> line;
  for (GpuState& gpu : state.gpus.all) {
    if (!gpu.kept_place) continue;
    if (!line) line = InLine(state, LineKind::kWithGpus, kRoomLooks);
    const auto first = std::ranges::find_if(
        *line, [&state](TaskId id) { return WaitsForGpus(state, state.tasks.at(id)); });
    Time& until = gpu.kept_place->until;
    const bool is_first = first != line->end() && *first == gpu.kept_place->task;
    if (!is_first) until = std::min(until, state.now + kPlaceKept);
    for (const auto& [leaver, waiting] : state.preemptions.room_for) {
      if (!is_first) break;
      const TaskRecord* task = state.Held(leaver);
      if (waiting == gpu.kept_place->task && task != nullptr && task->attempt->leaves_by)
        until = std::max(until, *task->attempt->leaves_by + kPlaceKept);
    }
    if (until > state.now)
      WakeForTurns(state, until);
    else
      gpu.kept_place.reset();
  }
}

// Time at which running tasks are asked to checkpoint before the server shuts down.
Time AskedBeforeShutdown(const State& state) {
  return state.closing->empty_by -
         std::max(state.config.slots.notice, state.config.slots.shutdown_notice);
}

}  // namespace

void WakeForTurns(State& state, Time when) {
  if (when > state.now)
    state.preemptions.next_turn = std::min(state.preemptions.next_turn.value_or(when), when);
}

void AskToLeave(State& state, TaskRecord& task, StopCause cause, Time by) {
  if (task.attempt->leaves_by && *task.attempt->leaves_by <= by) return;
  Attempt& attempt = task.attempt.Edit();
  attempt.slot_notice = attempt.slot_notice.value_or(state.now);
  attempt.notice_cause = cause;
  attempt.leaves_by = by;
  state.preemptions.leaving.insert(task.id);
  state.Keep(task);
  state.out.actions.emplace_back(AskToSave{task.id, task.attempt->number, by});
}

// The notice remains on record, because the task might still respond to it by saving.
void CancelPreemption(State& state, TaskRecord& task) {
  task.attempt.Edit().leaves_by.reset();
  state.preemptions.leaving.erase(task.id);
  state.Keep(task);
  state.out.actions.emplace_back(DropDeadline{task.id, task.attempt->number});
}

Reason ReasonOfLeaving(const State& state, const TaskRecord& task) {
  const auto whom = state.preemptions.room_for.find(task.id);
  std::string why;
  if (whom != state.preemptions.room_for.end()) {
    why = fmt::format(", because task {} is waiting to take its place", whom->second);
  } else if (state.closing) {
    why = fmt::format(", because the server is {}", state.closing->why);
  }
  return {ReasonToLeave(state, task).code,
          fmt::format("It was asked to checkpoint and must exit by {}{}.",
                      base::FormatTimeIso(*task.attempt->leaves_by), why)};
}

void StopAsked(State& state, TaskRecord& task) {
  state.Stop(task, task.attempt->notice_cause, ReasonToLeave(state, task));
}

bool GoesOnLater(const State& state, const TaskRecord& task) {
  const Attempt& attempt = task.attempt;
  if (!task.request->requeue || (!attempt.slot_notice && !attempt.warned)) return false;
  if (!SaysItSaved(state.config.slots, task.request, task.exit)) return false;
  // Without a checkpoint notice, death by a signal does not prove that the task saved its work.
  // Many programs that cannot checkpoint are killed by the warning signal that precedes their time
  // limit.
  return attempt.slot_notice || task.exit->signal == 0;
}

void EndSaved(State& state, TaskRecord& task) {
  ++task.checkpoints;
  if (task.attempt->slot_notice) return GoOnLater(state, task, ReasonToLeave(state, task));
  task.reason = {ReasonCode::kTimeLimit,
                 fmt::format("Checkpointed before its time limit of {}; it will continue later.",
                             base::FormatSpan(task.request->time_limit.value_or(Duration{0})))};
  NoteRequeue(state, task);
  PauseRequeued(state, task);
  GoOnLater(state, task, task.reason);
}

void EndAsked(State& state, TaskRecord& task, Reason reason) {
  if (!task.request->requeue) {
    const bool with_machine = reason.code == ReasonCode::kNodeFail;
    return state.Finish(task, with_machine ? TaskState::kLost : TaskState::kCancelled,
                        std::move(reason));
  }
  // The task may have saved its work when it got SIGTERM.
  ++(SaysItSaved(state.config.slots, task.request, task.exit) ? task.checkpoints : task.cut_off);
  reason.text.Edit() += WhatItCost(state, task);
  GoOnLater(state, task, std::move(reason));
}

PreemptionPlan PreemptionPlanNow(const State& state) {
  PreemptionPlan room(state.config, state.gpus.links);
  const Time plateau_from = PlateauFrom(state, state.now);
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    const GpuView view = ViewOf(state, GpuIndex{i}, state.now);
    std::vector<PlannedTask> there;
    std::size_t place = 0;
    for (const Resident& each : state.ledger.ResidentsOf(GpuIndex{i})) {
      there.push_back({.task = each.task,
                       .promised_mib = PromiseOf(each, plateau_from),
                       .exclusive = IsExclusive(state, each),
                       .sm_share = each.sm_share,
                       .load = view.residents[place],
                       .uid = view.users[place]});
      ++place;
    }
    room.Add(view, std::move(there));
  }
  for (const auto& [id, gpus_of] : state.ledger.Tasks()) {
    if (state.tasks.at(id).state == TaskState::kStopping) room.Leave(id);
  }
  return room;
}

void TakeTurns(State& state) {
  state.preemptions.next_turn.reset();
  EmptyServer(state);
  EmptyDrained(state);
  MakeRoom(state);
  for (const TaskId id :
       std::vector<TaskId>(state.preemptions.leaving.begin(), state.preemptions.leaving.end())) {
    TaskRecord& task = state.tasks.at(id);
    WakeForTurns(state, *task.attempt->leaves_by);
    if (*task.attempt->leaves_by > state.now || task.attempt->notice_cause == StopCause::kDrained)
      continue;
    // The waiting task may have started elsewhere in the meantime.
    if (state.preemptions.room_for.contains(id)) {
      StopAsked(state, task);
    } else {
      CancelPreemption(state, task);
    }
  }
  KeepPlaces(state);
}

std::optional<TaskId> KeptFor(const State& state, const GpuState& gpu, Time at) {
  if (!gpu.kept_place || at >= gpu.kept_place->until ||
      state.queue.PlaceOf(gpu.kept_place->task) != Place::kEligible) {
    return std::nullopt;
  }
  // While no task may overtake the head of the queue, GPUs are kept only for the head, because this
  // GPU may be the only one that the head can use.
  if (FirstOnly(state) && state.heads.passed.task &&
      *state.heads.passed.task != gpu.kept_place->task)
    return std::nullopt;
  return gpu.kept_place->task;
}

// Adds to a waiting task's reason which task will make room for it. If the task was preempted or
// used up its time slice, the reason code still says so.
Reason WithTurns(const State& state, const TaskRecord& task, Reason reason) {
  const auto made = std::ranges::find(state.preemptions.room_for, task.id,
                                      &std::pair<const TaskId, TaskId>::second);
  if (made != state.preemptions.room_for.end()) {
    const auto leaver = state.tasks.find(made->first);
    if (leaver != state.tasks.end() && leaver->second.state == TaskState::kRunning &&
        leaver->second.attempt->leaves_by) {
      reason.text.Edit() +=
          fmt::format(" Task {} was asked to checkpoint and will make room for it by {}.",
                      made->first, base::FormatTimeIso(*leaver->second.attempt->leaves_by));
    }
  }
  const ReasonCode came_back = task.reason.code;
  if (came_back == ReasonCode::kTimeSlot || came_back == ReasonCode::kPreempted)
    return {came_back, *task.reason.text + " " + *reason.text};
  return reason;
}

void State::On(const ServerClosed& event) {
  closing = event;
}

void State::On(const ServerOpened&) {
  closing.reset();
  passes.no_start_without_gpus = {};
  // Withdraws the requests to leave that were made because of the shutdown. If a task has to leave
  // for another reason as well, it will be asked again.
  for (const TaskId id :
       std::vector<TaskId>(preemptions.leaving.begin(), preemptions.leaving.end())) {
    TaskRecord& task = tasks.at(id);
    if (task.attempt->notice_cause == StopCause::kDrained) CancelPreemption(*this, task);
  }
}

bool MustAllLeave(const State& state) {
  return state.closing && state.now >= AskedBeforeShutdown(state);
}

void EmptyServer(State& state) {
  if (!state.closing) return;
  WakeForTurns(state, AskedBeforeShutdown(state));
  if (!MustAllLeave(state)) return;
  for (auto& [id, task] : state.tasks) {
    if (task.state == TaskState::kRunning)
      AskToLeave(state, task, StopCause::kDrained, state.closing->empty_by);
  }
}

// A task that must not be requeued ends with kNodeFail, just as if the machine had failed without
// notice.
Reason ReasonOfShutdown(const State& state, const TaskRecord& task) {
  return {task.request->requeue ? ReasonCode::kDraining : ReasonCode::kNodeFail,
          fmt::format("It had to exit by {} because the server is {}.",
                      base::FormatTimeIso(state.closing->empty_by), state.closing->why)};
}

}  // namespace carma::core

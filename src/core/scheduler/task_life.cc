#include "core/scheduler/task_life.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/repeats.h"
#include "core/scheduler/time_slices.h"
#include "core/scheduler/waiting.h"

namespace carma::core {
namespace {

// Reports the attempt's usage. Called once, while the placement of the attempt is still known.
void GiveBack(State& state, const TaskRecord& task, std::optional<ExitKind> exit) {
  AttemptEnded ended = AttemptOf(state, task, state.LifeOf(task.id).ended.value_or(state.now));
  ended.exit = exit;
  state.shares.Release(task.id, ended.taken.to, state.now);
  state.limits.End(task);
  state.limits.Past(ended.taken, state.now);
  state.out.actions.emplace_back(std::move(ended));
}

}  // namespace

TaskRecord* State::Held(TaskId id) {
  const auto at = tasks.find(id);
  return at == tasks.end() ? nullptr : &at->second;
}

TaskRecord* State::InAttempt(TaskId id, int attempt) {
  TaskRecord* task = Held(id);
  const bool current =
      task != nullptr && task->attempt->number == attempt && HoldsGpus(task->state);
  return current ? task : nullptr;
}

const Life& State::LifeOf(TaskId id) const {
  static const Life fresh;
  const auto at = lives.find(Number(id));
  return at == lives.end() ? fresh : at->second;
}

std::optional<Reason> UnfitNow(const State& state, const TaskRecord& task) {
  if (std::optional<Reason> never = NeverFits(state, task.request, task.estimate)) return never;
  const std::optional<LimitHit> hit =
      state.limits.AgainstEver(task.request, HostNeedOf(state.config, task.request));
  if (!hit) return std::nullopt;
  return Reason{ReasonCode::kLimit,
                TextOf(*hit) +
                    " It cannot start unless the limit is raised or carma edit lowers "
                    "what the task asks for."};
}

void NoteUnfit(State& state, const TaskRecord& task) {
  const bool unfit = UnfitNow(state, task).has_value();
  if (unfit != state.LifeOf(task.id).unfit) state.EditLife(task.id).unfit = unfit;
}

void NoteChoice(State& state, const TaskRecord& task) {
  std::shared_ptr<const GpuChoice> choice = ChoiceOf(task.request, state.gpus.infos);
  if (choice != state.LifeOf(task.id).choice) state.EditLife(task.id).choice = std::move(choice);
}

void State::Move(TaskRecord& task, TaskState to) {
  CARMA_CHECK(IsLegalStep(task.state, to),
              fmt::format("task {}: illegal transition {} -> {} in attempt {}", task.id,
                          TaskStateName(task.state), TaskStateName(to), task.attempt->number));
  task.state = to;
  out.moved.insert(task.id);
}

void State::Keep(const TaskRecord& task) {
  out.actions.emplace_back(TaskChanged{task, out.moved.erase(task.id) > 0});
}

void State::Finish(TaskRecord& task, TaskState state, Reason reason) {
  const TaskId id = task.id;
  task.ended = HoldsGpus(task.state) ? LifeOf(id).ended.value_or(now) : now;
  Move(task, state);
  task.reason = std::move(reason);
  Attempt& attempt = task.attempt.Edit();
  attempt.stopping = StopCause::kNone;
  attempt.idle_since.reset();
  Keep(task);
  LeaveGpus(task);
  LeaveArray(*this, task);
  lessons.Leave(task);
  limits.Leave(task);
  queue.Remove(id);
  unsorted.erase(id);
  lives.erase(Number(id));
  tasks.erase(id);
  for (const TaskId each : dependencies.End(id, state, tasks)) {
    if (tasks.at(each).state == TaskState::kQueued) unsorted.insert(each);
  }
}

void State::Enqueue(TaskRecord& task, QueueKind kind, Reason reason) {
  // A task that was edited or requeued while it waited keeps its waiting time.
  if (HoldsGpus(task.state) || task.queued_since < task.submitted) task.queued_since = now;
  if (task.state != TaskState::kQueued) Move(task, TaskState::kQueued);
  task.queue = kind;
  task.reason = std::move(reason);
  if (task.attempt->number > 0) task.attempt = task.attempt->Past();
  Keep(task);
  unsorted.insert(task.id);
}

void State::Stop(TaskRecord& task, StopCause cause, Reason reason) {
  Move(task, TaskState::kStopping);
  deadlines.Forget(task);
  preemptions.leaving.erase(task.id);
  task.attempt.Edit().stopping = cause;
  EditLife(task.id).stop_sent = now;
  task.reason = std::move(reason);
  Keep(task);
  out.actions.emplace_back(StopTask{task.id, task.attempt->number, cause});
}

void StopExpired(State& state) {
  while (const std::optional<TaskId> expired = state.deadlines.Expired(state.now)) {
    TaskRecord& task = state.tasks.at(*expired);
    const Life& life = state.LifeOf(task.id);
    const bool shared = life.shared && !life.restored;  // before a restart, it may have been alone
    state.Stop(
        task, StopCause::kTimeLimit,
        {ReasonCode::kTimeLimit,
         fmt::format("Ran longer than its time limit of {}.{}",
                     base::FormatSpan(*task.request->time_limit),
                     shared ? " It shared a GPU, so it may have run slower than alone." : "")});
  }
}

void WarnExpiring(State& state) {
  while (const std::optional<TaskId> due = state.deadlines.ToWarn(state.now)) {
    TaskRecord& task = state.tasks.at(*due);
    state.deadlines.Forget(task);
    task.attempt.Edit().warned = state.now;
    state.deadlines.Watch(task);
    state.Keep(task);
    state.out.actions.emplace_back(WarnTask{task.id, task.attempt->number});
  }
}

void State::LeaveGpus(TaskRecord& task, std::optional<ExitKind> exit) {
  if (HoldsGpus(task.state)) GiveBack(*this, task, exit);
  const std::span<const GpuIndex> held = ledger.GpusOf(task.id);
  const std::vector<GpuIndex> left(held.begin(), held.end());
  ledger.Release(task.id);
  machine.books.Release(task.id);
  for (const GpuIndex gpu : left) {
    gpus.all[Number(gpu)].crowd_changed = now;
    LookAtResidents(*this, gpu);
  }
  deadlines.Forget(task);
  preemptions.leaving.erase(task.id);
}

AttemptEnded AttemptOf(const State& state, const TaskRecord& task, Time to) {
  const Attempt& attempt = task.attempt;
  const Time from = attempt.launched.value_or(to);
  AttemptEnded ended{.id = task.id,
                     .attempt = attempt.number,
                     .taken = {.uid = task.request->uid,
                               .user = UserOf(task.request),
                               .account = task.request->account.value_or(""),
                               .qos = QosOf(task.request),
                               .gpus = task.request->gpus,
                               .rate = RateNow(state, task),
                               .from = from,
                               .to = to},
                     .started = attempt.started,
                     .waited = from - (attempt.number > 1 ? task.queued_since : task.submitted),
                     .peak_mib = task.peak_mib};
  for (const Placement& each : attempt.placement) ended.gpus.push_back(each.gpu);
  if (!attempt.placement.empty()) ended.promised_mib = attempt.placement.front().claim_mib;
  return ended;
}

// A task without GPUs is charged as if all of the machine's cores or memory were one whole GPU.
double RateNow(const State& state, const TaskRecord& task) {
  const HostShare& share = task.attempt->host;
  if (task.request->gpus == 0) return state.machine.books.PartOf(share.cpus, share.memory_mib);
  return RateOf(task, state.gpus.sizes_mib, KeepsGpusAlone(state, task));
}

bool KeepsGpusAlone(const State& state, const TaskRecord& task) {
  return task.request->exclusive || !state.mapper_entry->shares;
}

void State::TakeGpus(const TaskRecord& task, std::int64_t known_mib) {
  Life& life = EditLife(task.id);
  life.shared = false;
  life.done_s = life.activity_s = 0;
  life.done_at = now;
  life.alone_s.reset();
  life.active_from.reset();
  life.stop_sent.reset();
  life.ended.reset();
  life.cpus.reset();
  life.head_since.reset();
  life.usual_cpus = 0;
  machine.books.Take(task.id, task.attempt->host);
  shares.Take(task, RateNow(*this, task), task.attempt->launched.value_or(now), now);
  limits.Start(task);
  for (const Placement& placement : task.attempt->placement) {
    // This GPU is gone: the server restarted without it.
    if (Number(placement.gpu) >= gpus.all.size()) continue;
    for (const Resident& neighbour : ledger.ResidentsOf(placement.gpu)) {
      EditLife(neighbour.task).shared = true;
      life.shared = true;
    }
    const GpuState& gpu = gpus.all[Number(placement.gpu)];
    if (gpu.sample && gpu.sample->foreign_processes > 0) life.shared = true;
    ledger.Claim(placement.gpu, {.task = task.id,
                                 .claim_mib = placement.claim_mib,
                                 .exclusive = task.request->exclusive,
                                 .sm_share = task.request->sm_share.value_or(0),
                                 .launched = task.attempt->launched.value_or(now),
                                 .memory = Plateau(known_mib)});
    gpus.all[Number(placement.gpu)].crowd_changed = now;
    LookAtResidents(*this, placement.gpu);
  }
}

void State::Restart(TaskRecord& task, Reason reason) {
  const bool ran = HoldsGpus(task.state);
  task = AsSubmitted(std::move(task));
  task.reason = std::move(reason);
  if (ran) PauseRequeued(*this, task);
  Enqueue(task, QueueKind::kMain, task.reason);
}

void EndStopped(State& state, TaskRecord& task) {
  Reason reason = task.reason;
  switch (task.attempt->stopping) {
    case StopCause::kTimeLimit:
      return state.Finish(task, TaskState::kTimedOut, std::move(reason));
    case StopCause::kRequeue:
      return state.Restart(task, std::move(reason));
    case StopCause::kTimeSlot:
    case StopCause::kPreempted:
    case StopCause::kDrained:
      return EndAsked(state, task, std::move(reason));
    case StopCause::kGpuLost:
      return RequeueLost(state, task, std::move(reason));
    case StopCause::kNone:
    case StopCause::kCancel:
    case StopCause::kIdle:
      return state.Finish(task, TaskState::kCancelled, std::move(reason));
  }
}

void RequeueLost(State& state, TaskRecord& task, Reason reason) {
  ++task.node_failures;
  if (!task.request->requeue || task.node_failures > state.config.max_node_failures)
    return state.Finish(task, TaskState::kLost, std::move(reason));
  state.Enqueue(task, task.queue, std::move(reason));
}

void AskEstimate(State& state, TaskRecord& task) {
  state.Keep(task);
  if (task.request->gpus > 0) {
    state.out.actions.emplace_back(RequestEstimate{task.id});
    return;
  }
  if (std::optional<Reason> never = NeverFits(state, task.request, {}))
    return state.Finish(task, TaskState::kRejected, *std::move(never));
  state.Enqueue(task, QueueKind::kMain, task.reason);
}

Duration RetryBackoff(int failures) {
  constexpr Duration kFirst{5'000};
  constexpr int kMostDoublings = 6;
  return kFirst * (1 << std::clamp(failures - 1, 0, kMostDoublings));
}

void EndIdle(State& state, TaskRecord& task) {
  state.Stop(task, StopCause::kIdle,
             {ReasonCode::kIdleHolder,
              fmt::format("Held GPUs without using them for {}.",
                          base::FormatSpan(state.now - *task.attempt->idle_since))});
}

}  // namespace carma::core

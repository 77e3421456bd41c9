// Handles the events in a task's life: submitted, estimated, started, ended.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/recovery.h"
#include "core/scheduler/repeats.h"
#include "core/scheduler/scheduler_state.h"
#include "core/scheduler/task_life.h"
#include "core/scheduler/time_slices.h"
#include "core/values/reason_line.h"

namespace carma::core {
namespace {

// How many times carmad tries to start a task whose user is not found. With the pauses, this takes
// about an hour, within which a directory server that was down may be back.
constexpr int kMostWithoutUser = 16;

std::string Told(std::string_view what, const std::string& detail) {
  return fmt::format("{}{}{}.", what, detail.empty() ? "" : ": ", detail);
}

// ExitInfo::detail is usually a complete explanation ("exit code 1: ValueError: …"). If it is
// empty, this function writes one.
Reason FailureReason(const ExitInfo& exit, const HostShare& host) {
  if (exit.kind == ExitKind::kGpuFault)
    return {ReasonCode::kGpuFault, Told("Failed because of a fault on its GPU", exit.detail)};
  const ReasonCode code = exit.signal != 0 ? ReasonCode::kSignal : ReasonCode::kNonZeroExit;
  if (exit.kind == ExitKind::kHostMemory) {
    const std::string limit =
        fmt::format(" (the task was promised {})", base::FormatMib(host.memory_mib));
    return {ReasonCode::kHostMemory, Told(fmt::format("Killed because host memory ran out{}",
                                                      host.memory_mib > 0 ? limit : ""),
                                          exit.detail)};
  }
  if (!exit.detail.empty()) return {code, AsSentence(exit.detail)};
  if (exit.signal != 0) return {code, fmt::format("Ended by signal {}.", exit.signal)};
  return {code, fmt::format("Exited with status {}.", exit.code)};
}

void RequeueVictim(State& state, TaskRecord& task) {
  const std::string why = "Failed because of a fault in a neighbouring task or in the MPS server";
  // A task with neither requeue nor retries must not be restarted. A lease is such a task,
  // because the server cannot start its process.
  if (!task.request->requeue && task.request->max_recoveries == 0)
    return state.Finish(task, TaskState::kFailed, {ReasonCode::kVictim, why + "."});
  if (++task.victim_restarts > state.config.max_victim_restarts) {
    return state.Finish(
        task, TaskState::kFailed,
        {ReasonCode::kVictim, fmt::format("{} {}; no restarts left.", why,
                                          base::Counted(task.victim_restarts, "time"))});
  }
  task.not_before = state.now + RetryBackoff(1);
  state.Enqueue(task, task.queue, {ReasonCode::kVictim, why + "; starts again."});
}

// Refunds retries to tasks whose launches failed because of the machine.
void RefundRetries(State& state, const std::map<TaskId, int>& innocent) {
  for (const auto& [id, failures] : innocent) {
    TaskRecord* task = state.Held(id);
    if (task == nullptr || failures == 0) continue;
    task->launch_failures = std::max(0, task->launch_failures - failures);
    task->not_before.reset();
    state.Keep(*task);
    if (task->state == TaskState::kQueued) state.unsorted.insert(id);
  }
}

// The reported end, limited to the time between the task's start and now. The reported end can
// precede the recorded start if both are reported late.
Time EndOf(const TaskRecord& task, Time reported, Time now) {
  const Attempt& attempt = *task.attempt;
  const Time begun = attempt.started.value_or(attempt.launched.value_or(now));
  return std::min(std::max(reported, begun), now);
}

// True if the task had already succeeded when carmad stopped it. This happens mostly after a
// restart, if the task's deadline to leave passes before its exit is reported.
bool FinishedBeforeStop(const State& state, const TaskRecord& task) {
  const Life& life = state.LifeOf(task.id);
  return task.exit->kind == ExitKind::kSuccess && life.ended && life.stop_sent &&
         *life.ended < *life.stop_sent;
}

// True if the counts show that an earlier attempt has run. A user's requeue resets most of them.
bool HasRun(const TaskRecord& task) {
  return task.ooms + task.node_failures + task.victim_restarts + task.checkpoints + task.cut_off >
         0;
}

}  // namespace

void State::On(const TaskSubmitted& event) {
  const auto [at, added] = tasks.try_emplace(event.id);
  if (!added) return;
  TaskRecord& task = at->second;
  task.id = event.id;
  task.request = event.request;
  NoteChoice(*this, task);
  task.held = task.request->held;
  task.submitted = now;
  dependencies.Arrive(task.id);
  limits.Join(task);
  if (event.by) PauseSubmitted(*this, task, *event.by);
  Move(task, TaskState::kEstimating);
  AskEstimate(*this, task);
}

void State::On(const TaskRestored& event) {
  if (IsFinal(event.record.state)) return;
  const auto [at, added] = tasks.try_emplace(event.record.id, event.record);
  if (!added) return;
  TaskRecord& task = at->second;
  NoteChoice(*this, task);
  dependencies.Return(task.id);
  limits.Join(task);
  EditLife(task.id).restored = true;
  lessons.Join(task);
  if (task.ooms > 0 && task.retry_free_mib) lessons.AtLeast(task, *task.retry_free_mib);
  if (task.state == TaskState::kSubmitted) Move(task, TaskState::kEstimating);
  if (task.state == TaskState::kEstimating) return AskEstimate(*this, task);
  if (task.state == TaskState::kQueued) {
    CutToGpus(*this, task);  // the server may have different GPUs than before
    NoteUnfit(*this, task);
    unsorted.insert(task.id);
  } else {
    TakeGpus(task, task.peak_mib);
    arrays.Admit(task);
    EditLife(task.id).shared = true;  // its neighbours before the restart are unknown
    if (HasRun(task)) EditLife(task.id).launched_before = task.first_start;
  }
  if (task.state == TaskState::kRunning) deadlines.Watch(task);
  if (task.state == TaskState::kRunning && task.attempt->leaves_by) {
    preemptions.leaving.insert(task.id);
    out.actions.emplace_back(AskToSave{.id = task.id,
                                       .attempt = task.attempt->number,
                                       .leaves_by = *task.attempt->leaves_by,
                                       .after_restart = true});
  }
  if (task.state == TaskState::kStopping)
    out.actions.emplace_back(StopTask{task.id, task.attempt->number, task.attempt->stopping});
}

void State::On(const AttemptRestored& event) {
  shares.Past(event.taken, now);
  limits.Past(event.taken, now);
}

void State::On(const EstimateReady& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || task->state != TaskState::kEstimating) return;
  // Consecutive tasks often have equal estimates and then share one copy.
  task->estimate = last_estimate;
  const std::optional<Estimate>& last = last_estimate;
  if (event.estimate != last) task->estimate = event.estimate;
  CutToGpus(*this, *task);
  if (!task->estimate.ShareWith(last_estimate)) last_estimate = task->estimate;
  lessons.Leave(*task);
  task->kind = event.kind;
  task->profile = event.profile;
  lessons.Join(*task);
  if (std::optional<Reason> never = core::NeverFits(*this, task->request, task->estimate))
    return Finish(*task, TaskState::kRejected, *std::move(never));
  // Keeps the current reason, which may say that a user requeued the task. Also keeps the task in
  // the recovery queue if it was edited before its retry.
  Enqueue(*task, task->queue, task->reason);
}

void State::On(const TaskStarted& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  if (task->attempt->started) return;  // after a restart the start is reported again
  task->attempt.Edit().started = now;
  task->launch_failures = 0;
  launch_trouble.Works(task->attempt->launched.value_or(now));
  if (task->state == TaskState::kLaunching) {
    Move(*task, TaskState::kRunning);
    task->reason = {};
    deadlines.Watch(*task);
  }
  Keep(*task);
}

void State::On(const SharingChosen& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr || task->attempt->sharing == event.sharing) return;
  task->attempt.Edit().sharing = event.sharing;
  Keep(*task);
}

void State::On(const TaskIdle& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr || task->state != TaskState::kRunning) return;
  const bool ends = event.since && config.idle_action == IdleAction::kEnd;
  // Normally a repeated report changes nothing. But if the daemon has restarted with a new rule,
  // the task must end now.
  if (task->attempt->idle_since == event.since && !ends) return;
  task->attempt.Edit().idle_since = event.since;
  if (!ends) return Keep(*task);
  EndIdle(*this, *task);
}

void State::On(const LaunchFailed& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  if (event.ended) EditLife(task->id).ended = EndOf(*task, *event.ended, now);
  LeaveGpus(*task);
  if (task->state == TaskState::kStopping) return EndStopped(*this, *task);
  const auto wait_again = [&](Reason reason) {
    // This attempt must not count as a start for Dependencies, but earlier ones still do.
    task->attempt.Edit().launched = LifeOf(task->id).launched_before;
    Enqueue(*task, task->queue, std::move(reason));
  };
  if (event.interrupted) {
    // event.text is set if the task did run but ended immediately because its GPU could not be
    // used.
    const std::string why = event.text.empty() ? "The daemon exited before the task was started."
                                               : Told("Its GPU could not be used", event.text);
    return wait_again({ReasonCode::kLaunchFailed, why});
  }
  if (event.waits) {
    ++task->launch_failures;
    // Pauses at least as long as the attempt kept its GPUs from other tasks, up to the longest
    // back-off.
    const Duration kept = now - task->attempt->launched.value_or(now);
    task->not_before =
        now + std::clamp(kept, RetryBackoff(task->launch_failures), RetryBackoff(kMostWithoutUser));
    // A task whose user is still not found is held. Otherwise, its attempts could preempt other
    // tasks, or keep GPUs from them, forever.
    task->held = event.no_user && task->launch_failures >= kMostWithoutUser;
    return wait_again({ReasonCode::kLaunchFailed,
                       fmt::format("{}: {}.", task->held ? "Held" : "Waiting again", event.text)});
  }
  Reason reason{ReasonCode::kLaunchFailed, fmt::format("Could not be started: {}.", event.text)};
  if (event.retryable) {
    const std::map<TaskId, int> innocent =
        launch_trouble.Failed(now, *task, event.text, event.exhausted);
    RefundRetries(*this, innocent);
    if (launch_trouble.on()) return wait_again(std::move(reason));
  }
  ++task->launch_failures;
  if (!event.retryable || task->launch_failures > config.max_launch_failures)
    return Finish(*task, TaskState::kFailed, std::move(reason));
  task->not_before = now + RetryBackoff(task->launch_failures);
  wait_again(std::move(reason));
}

void State::On(const TaskExited& event) {
  TaskRecord* task = InAttempt(event.id, event.attempt);
  if (task == nullptr) return;
  task->exit = event.exit;
  task->seen = SeenOf(*this, *task);
  if (event.ended) EditLife(task->id).ended = EndOf(*task, *event.ended, now);
  LeaveGpus(*task, event.exit.kind);
  if (task->state == TaskState::kStopping && !FinishedBeforeStop(*this, *task))
    return EndStopped(*this, *task);
  if (GoesOnLater(*this, *task)) return EndSaved(*this, *task);
  switch (event.exit.kind) {
    case ExitKind::kSuccess:
      // If the daemon was restarted, part of the run was not measured.
      if (!LifeOf(task->id).restored && task->peak_mib > 0)
        lessons.Succeeded(*task, NeedAfterPlateau(task->peak_mib));
      return Finish(*task, TaskState::kSucceeded, {});
    case ExitKind::kOutOfMemory:
      if (task->request->gpus == 0) break;  // without GPUs, no GPU can be too small
      return EndOutOfMemory(*this, *task, event.tried_mib);
    case ExitKind::kVictim:
      return RequeueVictim(*this, *task);
    case ExitKind::kLost:
      return RequeueLost(*this, *task,
                         {ReasonCode::kNodeFail, "Its process disappeared without a report."});
    case ExitKind::kDeviceFault:
      return RequeueLost(*this, *task,
                         {ReasonCode::kNodeFail, Told("Its GPU failed", event.exit.detail)});
    case ExitKind::kGpuFault:
    case ExitKind::kFailed:
    case ExitKind::kHostMemory:
      break;
  }
  EndFailed(*this, *task, FailureReason(event.exit, task->attempt->host));
}

}  // namespace carma::core

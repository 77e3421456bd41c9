// Handles the requests that users make about a task: cancel, hold, requeue, edit.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/scheduler/repeats.h"
#include "core/scheduler/scheduler_state.h"
#include "core/scheduler/task_life.h"
#include "core/scheduler/time_slices.h"
#include "core/scheduler/waiting.h"

namespace carma::core {
namespace {

// The request after the edit. Some fields cannot be edited.
TaskRequest Edited(const TaskRecord& task, TaskRequest wanted) {
  const TaskRequest& before = task.request;
  TaskRequest after = HoldsGpus(task.state) ? before : wanted;
  after.uid = before.uid;
  after.user = before.user;
  after.array = before.array;
  after.array_limit = before.array_limit;
  after.held = before.held;
  after.priority = wanted.priority;
  after.qos = std::move(wanted.qos);
  after.time_limit = wanted.time_limit;
  after.signal_before = wanted.signal_before;
  return after;
}

// True if the request is better evidence of the memory needed per GPU than the task's last crash.
bool ReplacesRetryDemand(const TaskRecord& task, const TaskRequest& after) {
  const TaskRequest& before = task.request;
  const std::int64_t crashed_mib =
      task.peak_mib > 0 ? task.peak_mib : task.retry_free_mib.value_or(0);  // no sample was taken
  return after.gpus != before.gpus ||
         after.memory_mib > std::max(crashed_mib, before.memory_mib.value_or(0));
}

// The task is first stored in the submitted state, so that the estimate is requested again after a
// restart.
void AskEstimateAgain(State& state, TaskRecord& task) {
  LeaveArray(state, task);
  const std::optional<Place> place = state.queue.PlaceOf(task.id);
  if (place && WaitsForOthers(task, *place)) task.queued_since = state.now;
  // If this is the only task of its line, the line disappears until the estimate is ready, so the
  // task remembers when the line started to wait.
  const std::map<LineKey, HolderLine>& lines = state.queue.Main(LineKindOf(task.request)).holders;
  const auto line = lines.find(LineOf(task));
  if (place == Place::kEligible && line != lines.end() && line->second.tasks.size() == 1)
    state.EditLife(task.id).line_since = line->second.waits_since;
  state.queue.Remove(task.id);
  state.unsorted.erase(task.id);
  if (state.LifeOf(task.id).unfit) state.EditLife(task.id).unfit = false;
  task.estimate.reset();
  state.Move(task, TaskState::kSubmitted);
  state.Keep(task);
  state.Move(task, TaskState::kEstimating);
  AskEstimate(state, task);
}

}  // namespace

void State::On(const CancelRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr) return;
  Reason reason{ReasonCode::kCancelledByUser, fmt::format("Cancelled by {}.", event.who)};
  if (!HoldsGpus(task->state)) return Finish(*task, TaskState::kCancelled, std::move(reason));
  if (task->state != TaskState::kStopping)
    return Stop(*task, StopCause::kCancel, std::move(reason));
  if (task->attempt->stopping == StopCause::kCancel ||
      task->attempt->stopping == StopCause::kTimeLimit ||
      task->attempt->stopping == StopCause::kIdle)
    return;
  task->attempt.Edit().stopping =
      StopCause::kCancel;  // it is already ending; this only changes what happens next
  task->reason = std::move(reason);
  Keep(*task);
}

void State::On(const HoldRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || task->held || HoldsGpus(task->state)) return;
  task->held = true;
  Keep(*task);
  if (task->state == TaskState::kQueued) unsorted.insert(task->id);
}

void State::On(const ReleaseRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || !task->held) return;
  task->held = false;
  Keep(*task);
  if (task->state == TaskState::kQueued) unsorted.insert(task->id);
}

void State::On(const RequeueRequested& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr) return;
  Reason reason{ReasonCode::kRequeuedByUser, "Sent back to the queue on request."};
  if (task->state == TaskState::kQueued) return Restart(*task, std::move(reason));
  if (task->state == TaskState::kStopping) {
    if (task->attempt->stopping != StopCause::kGpuLost) return;
    NoteRequeue(*this, *task);
    task->attempt.Edit().stopping = StopCause::kRequeue;
    task->reason = std::move(reason);
    return Keep(*task);
  }
  if (!HoldsGpus(task->state)) return;
  // Some programs requeue themselves when they are asked to checkpoint.
  if (task->attempt->leaves_by) return StopAsked(*this, *task);
  NoteRequeue(*this, *task);
  Stop(*task, StopCause::kRequeue, std::move(reason));
}

void State::On(const PriorityChanged& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr || task->request->priority == event.priority) return;
  task->request.Edit().priority = event.priority;
  Keep(*task);
  if (task->state == TaskState::kQueued) unsorted.insert(task->id);
}

void State::On(const TaskEdited& event) {
  TaskRecord* task = Held(event.id);
  if (task == nullptr) return;
  TaskRequest after = Edited(*task, event.request);
  if (after == *task->request) return;
  const bool running = HoldsGpus(task->state);
  const bool estimated_anew = after.memory_mib != task->request->memory_mib ||
                              after.gpus != task->request->gpus ||
                              !ChooseAlike(after, task->request);
  if (ReplacesRetryDemand(*task, after)) {
    task->queue = QueueKind::kMain;
    task->retry_free_mib.reset();
    task->retry_on_idle_gpu = false;
  }
  const bool waits_for_others = after.dependencies != task->request->dependencies;
  deadlines.Forget(*task);
  if (running) limits.End(*task);
  limits.Leave(*task);
  task->request = std::move(after);
  NoteChoice(*this, *task);
  limits.Join(*task);
  if (running) limits.Start(*task);
  if (task->state == TaskState::kRunning) {
    // A task that was already warned about its old time limit is warned again about the new one.
    const TaskRequest& request = task->request;
    if (request.time_limit && request.signal_before && task->attempt->started &&
        *task->attempt->started + *request.time_limit - *request.signal_before > now)
      task->attempt.Edit().warned.reset();
    deadlines.Watch(*task);
  }
  if (waits_for_others) dependencies.Arrive(task->id);
  if (task->state != TaskState::kQueued) return Keep(*task);
  if (estimated_anew) return AskEstimateAgain(*this, *task);
  NoteUnfit(*this, *task);
  Keep(*task);
  unsorted.insert(task->id);
}

}  // namespace carma::core

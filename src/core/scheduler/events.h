// The core's input and output. Events report what happened; actions tell the caller (the daemon or
// the simulator) what to do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/books/fair_share.h"
#include "core/books/host.h"
#include "core/policy/policy.h"
#include "core/values/gpu.h"
#include "core/values/task.h"

namespace carma::core {

// ---- events ----

// The server's GPUs. Sent once, before all other events. After a restart, the list may be
// different; the caller has already translated the placements of restored tasks.
struct GpusDiscovered {
  std::vector<GpuInfo> gpus;
};
// The machine's cores and memory available to tasks. Sent before the tasks and again after each
// change. Without this event, cores and memory are not counted.
struct HostDiscovered {
  HostInfo host;
};
struct TaskSubmitted {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
  std::optional<TaskId> by = {};  // the running task whose process submitted it
};
// A task from an earlier run of the daemon, or a final task that a user requeues (already reset by
// AsSubmitted, without its possibly outdated estimate). The record is used as is.
//
// Launching, running and stopping tasks get their claims back, and a stopping task is stopped
// again. Submitted and estimating tasks are estimated again. A queued task that no longer fits on
// the server's GPUs stays in the queue with that reason.
struct TaskRestored {
  TaskRecord record;
};
// A finished attempt from an earlier run of the daemon. Its usage counts towards shares and limits.
// Sent before the tasks of that run.
struct AttemptRestored {
  Taken taken;
};
struct EstimateReady {
  TaskId id{};
  std::optional<Estimate> estimate;
  KindId kind{};
  base::CopyOnWrite<Profile> profile;
};
struct GpuSampled {
  GpuIndex gpu{};
  GpuSample sample;
};
// How busy the machine's cores are, in total and for each task with GPUs, averaged over the last
// few seconds. Without this event, busy cores are ignored.
struct HostSampled {
  double cpus = 0;  // number of hardware threads
  double used_cpus = 0;
  std::vector<std::pair<TaskId, double>> tasks_cpus;
};
// The remaining time of running tasks, computed from the progress that they print and their mean
// speed in this attempt. Omits tasks that print no progress.
struct ProgressSeen {
  std::vector<std::pair<TaskId, Duration>> left;
};
// The probe's verdict on a GPU or its driver: hung, lost, or reporting impossible values. The GPU
// stays closed until an event with `healthy` follows.
struct GpuHealthChanged {
  GpuIndex gpu{};
  bool healthy = true;
  // The GPU is gone for good. Its tasks are stopped and requeued once, on other GPUs.
  bool lost = false;
  std::string text;
};
struct TaskStarted {  // the task's process exists
  TaskId id{};
  int attempt = 0;
};
struct LaunchFailed {
  TaskId id{};
  int attempt = 0;
  std::string text;
  // True if the machine is at fault (for example, no memory for fork), false if the task is (for
  // example, a missing program).
  bool retryable = false;
  // The daemon exited before the launch began. The task is retried immediately, and no failure is
  // counted.
  bool interrupted = false;
  // True if the machine is certainly at fault: for example, the daemon could not get a file
  // descriptor, a process, memory or disk space.
  bool exhausted = false;
  // True if this failure never ends the task: it is retried with growing delays. This happens if a
  // lease's process exists but did not start using its GPUs (it may be suspended), or if the user
  // was not found (a directory server may be down).
  bool waits = false;
  // Set only with `waits`: the user was not found. After about an hour of attempts, the task is
  // held.
  bool no_user = false;
  // When the attempt ended, as for TaskExited.
  std::optional<Time> ended = {};
};
// The sharing method of this attempt, chosen by the caller. It is recorded with the task. Sent
// between StartTask and TaskStarted.
struct SharingChosen {
  TaskId id{};
  int attempt = 0;
  Sharing sharing;
};
// A running task has not used its GPUs since `since`, or is using them again if `since` is empty.
// PolicyConfig::idle_action decides how to react.
struct TaskIdle {
  TaskId id{};
  int attempt = 0;
  std::optional<Time> since;
};
struct TaskExited {
  TaskId id{};
  int attempt = 0;
  ExitInfo exit;
  // For kOutOfMemory: size of the failed allocation, from the task's output; 0 if unknown.
  std::int64_t tried_mib = 0;
  // When the task's process exited, possibly while carmad was down. If empty, it has just exited.
  std::optional<Time> ended = {};
};
struct CancelRequested {
  TaskId id{};
  std::string who;
};
struct HoldRequested {
  TaskId id{};
};
struct ReleaseRequested {
  TaskId id{};
};
// Requeues the task so that it starts from the beginning. A running task is stopped first. For
// final tasks, TaskRestored is sent instead.
struct RequeueRequested {
  TaskId id{};
};
struct PriorityChanged {
  TaskId id{};
  std::int64_t priority = 0;
};
// The task's new request, as edited by a user. The owner, array and hold do not change. For a task
// that holds GPUs, only the time limit, warning signal, priority and class change. If memory or the
// number of GPUs has changed, the task is estimated again.
struct TaskEdited {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
};
// An administrator or the health rules (by_rule) close a GPU to new tasks. Each sets a separate
// drain, and the GPU is open only if neither is set. The GPU's tasks are asked to checkpoint when
// SlotRules::notice remains until empty_by, and are stopped and requeued at empty_by.
struct DrainRequested {
  GpuIndex gpu{};
  std::string why;
  bool by_rule = false;
  std::optional<Time> empty_by = std::nullopt;
};
// An administrator's request lifts both drains. A request by the health rules lifts only their own
// drain.
struct ResumeRequested {
  GpuIndex gpu{};
  bool by_rule = false;
};
// The machine will shut down. No more tasks start, not even tasks without GPUs. Running tasks are
// stopped and requeued at `empty_by`. They are asked to checkpoint earlier, by the longer of
// SlotRules::shutdown_notice and SlotRules::notice. Drains of individual GPUs are not affected.
struct ServerClosed {
  std::string why;  // completes "The server is ...": who closed it, and until when
  Time empty_by{};
};
struct ServerOpened {};  // the machine does not shut down after all
// All periods during which GPUs are reserved. The caller sends them again before the last known
// period of a repeated reservation begins.
struct ReservationsChanged {
  std::vector<ReservedPeriod> periods;
};
// A new, validated policy that applies from now on. It must not change PolicyConfig::pacing or
// switch between a mapper that shares GPUs and one that does not. Running tasks keep their GPUs and
// claims. If the new policy ends idle tasks, those already reported as idle are ended.
struct PolicyChanged {
  explicit PolicyChanged(PolicyConfig to, std::optional<std::vector<Taken>> attempts = {})
      : policy(std::make_shared<const PolicyConfig>(std::move(to))), ended(std::move(attempts)) {}

  // A pointer, because every Event is as large as the largest one.
  std::shared_ptr<const PolicyConfig> policy;
  // All attempts that count towards gpu_hours limits, ordered by end time. Set only if a limit now
  // covers a longer period than before.
  std::optional<std::vector<Taken>> ended;
};
struct WakeUp {};  // the time of the last WakeAt has come

using Event =
    std::variant<GpusDiscovered, HostDiscovered, TaskSubmitted, TaskRestored, AttemptRestored,
                 EstimateReady, GpuSampled, HostSampled, ProgressSeen, GpuHealthChanged,
                 SharingChosen, TaskStarted, TaskIdle, LaunchFailed, TaskExited, CancelRequested,
                 HoldRequested, ReleaseRequested, RequeueRequested, PriorityChanged, TaskEdited,
                 DrainRequested, ResumeRequested, ServerClosed, ServerOpened, ReservationsChanged,
                 PolicyChanged, WakeUp>;

// ---- actions, to be performed in order, after they have been stored durably ----

// The task's record changed and must be stored. Precedes the action that results from the change.
struct TaskChanged {
  TaskRecord record;
  bool moved = false;  // its state has changed since it was last stored
  friend bool operator==(const TaskChanged&, const TaskChanged&) = default;
};
struct RequestEstimate {
  TaskId id{};
  friend bool operator==(const RequestEstimate&, const RequestEstimate&) = default;
};
struct StartTask {
  TaskId id{};
  int attempt = 0;
  std::vector<Placement> placement;
  // True if any sharing method will do because the task will have no neighbours. Other tasks may
  // still join it while it is idle (PolicyConfig::idle_action).
  bool alone = false;
  // Minimum for the memory limit that the caller sets on the task's first GPU: the claim or, if
  // higher, the predicted bound. 0 if the task was promised no memory.
  std::int64_t bound_mib = 0;
  friend bool operator==(const StartTask&, const StartTask&) = default;
};
struct StopTask {
  TaskId id{};
  int attempt = 0;
  StopCause cause = StopCause::kNone;
  friend bool operator==(const StopTask&, const StopTask&) = default;
};
// The task's time limit is near (TaskRequest::signal_before), so its process must get the warning
// signal. Emitted only once, even if the daemon restarts. The caller must send the signal before it
// stores the record that marks the task as warned.
struct WarnTask {
  TaskId id{};
  int attempt = 0;
  friend bool operator==(const WarnTask&, const WarnTask&) = default;
};
// The task must leave its GPUs by `leaves_by`, so its processes must get the checkpoint signal.
// Emitted again if the deadline becomes earlier. Also emitted again after a restart, in case the
// caller was killed before it had sent the signal.
struct AskToSave {
  TaskId id{};
  int attempt = 0;
  Time leaves_by{};
  bool after_restart = false;
  friend bool operator==(const AskToSave&, const AskToSave&) = default;
};
// The task may keep its GPUs after all, so the deadline of its last AskToSave no longer applies.
struct DropDeadline {
  TaskId id{};
  int attempt = 0;
  friend bool operator==(const DropDeadline&, const DropDeadline&) = default;
};
// Time at which the core next needs a WakeUp. Replaces the previous WakeAt. Additional WakeUps are
// harmless.
struct WakeAt {
  Time when{};
  friend bool operator==(const WakeAt&, const WakeAt&) = default;
};
// An attempt has released its GPUs, and its usage must be stored. Emitted once for each attempt,
// before the TaskChanged of its task.
struct AttemptEnded {
  TaskId id{};
  int attempt = 0;
  Taken taken;
  std::vector<GpuIndex> gpus;
  std::optional<Time> started;    // when its process started; empty if it never ran
  Duration waited{};              // time in the queue before this attempt
  std::int64_t promised_mib = 0;  // memory promised on each GPU of the attempt
  std::int64_t peak_mib = 0;      // highest memory seen on one GPU so far
  std::optional<ExitKind> exit;   // empty: it could not be launched
  friend bool operator==(const AttemptEnded&, const AttemptEnded&) = default;
};
using Action = std::variant<TaskChanged, RequestEstimate, StartTask, StopTask, WarnTask, AskToSave,
                            DropDeadline, WakeAt, AttemptEnded>;

}  // namespace carma::core

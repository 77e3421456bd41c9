// What happened (events) and what the shell must do about it (actions).
#pragma once

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

// Comes once, before all other events. The list may differ after a restart; restored placements are
// already translated.
struct GpusDiscovered {
  std::vector<GpuInfo> gpus;
};
// The machine's cores and memory for tasks. Comes before the tasks, and again whenever they change.
// If it never comes, they are not counted.
struct HostDiscovered {
  HostInfo host;
};
struct TaskSubmitted {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
  std::optional<TaskId> by = {};  // the running task whose process submitted it
};
// A task of an earlier run of the daemon, or a final one that a user requeues (as submitted,
// without its estimate, which may have changed). The record is used as it is. Launching, running
// and stopping tasks hold their claims from here on, and a stopping one is stopped again. A
// submitted or estimating task asks for its estimate again. A queued one that this server can never
// take (fewer GPUs than before) stays in the queue with that reason.
struct TaskRestored {
  TaskRecord record;
};
// A finished attempt of an earlier run of the daemon: its usage counts for shares and limits. Comes
// before the tasks of that run.
struct AttemptRestored {
  Taken taken;
};
struct EstimateReady {
  TaskId id{};
  std::optional<Estimate> estimate;
  KindId kind{};
  Profile profile;
};
struct GpuSampled {
  GpuIndex gpu{};
  GpuSample sample;
};
// How busy the machine's cores are, as means over the last seconds: in total, and by each task with
// GPUs. If it never comes, busy cores do not matter.
struct HostSampled {
  double cpus = 0;  // existing hardware threads
  double used_cpus = 0;
  std::vector<std::pair<TaskId, double>> tasks_cpus;
};
// Remaining time of running tasks according to their own output, at the mean speed of the attempt
// so far. Tasks that show no progress are left out.
struct ProgressSeen {
  std::vector<std::pair<TaskId, Duration>> left;
};
// The probe's verdict on a GPU or its driver: hung, lost, or with impossible readings. Closes the
// GPU until a healthy one follows.
struct GpuHealthChanged {
  GpuIndex gpu{};
  bool healthy = true;
  bool lost = false;  // gone for good: its tasks are stopped and requeued, once, elsewhere
  std::string text;
};
struct TaskStarted {  // its process exists
  TaskId id{};
  int attempt = 0;
};
struct LaunchFailed {
  TaskId id{};
  int attempt = 0;
  std::string text;
  // True: the machine's fault (no memory for fork), false: the task's (no such command).
  bool retryable = false;
  // The daemon ended before the launch began: the task is retried at once, and this does not count
  // as a failure.
  bool interrupted = false;
  // Certainly the machine's fault: the daemon itself got no descriptor, process or memory.
  bool exhausted = false;
  // The process of a lease exists but did not take its GPUs, for example because it is suspended:
  // it waits again with growing delays, without a limit.
  bool not_taken = false;
};
// How the shell starts this attempt; kept with the task. Comes between StartTask and TaskStarted.
struct SharingChosen {
  TaskId id{};
  int attempt = 0;
  Sharing sharing;
};
// A running task has not used its GPUs since that time; empty: it uses them (again).
// PolicyConfig::idle_action decides what follows.
struct TaskIdle {
  TaskId id{};
  int attempt = 0;
  std::optional<Time> since;
};
struct TaskExited {
  TaskId id{};
  int attempt = 0;
  ExitInfo exit;
  // kOutOfMemory: the size of the failed allocation, from the task's output; 0: unknown.
  std::int64_t tried_mib = 0;
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
// Requeues the task from the start; a running one is stopped first. Final tasks come as
// TaskRestored.
struct RequeueRequested {
  TaskId id{};
};
struct PriorityChanged {
  TaskId id{};
  std::int64_t priority = 0;
};
// What the task asks for from now on, as edited by a user. Its owner, array and hold do not change.
// For a task that holds GPUs only time limit, warning signal, priority and class are changed. If
// memory or the number of GPUs changed, it is estimated again.
struct TaskEdited {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
};
// An administrator, or the health rules (by_rule), close a GPU to new tasks. These are two separate
// drains; the GPU is open when neither is set. empty_by: when its tasks are stopped and requeued;
// they are asked to checkpoint SlotRules::notice earlier.
struct DrainRequested {
  GpuIndex gpu{};
  std::string why;
  bool by_rule = false;
  std::optional<Time> empty_by = std::nullopt;
};
// An administrator's request ends both drains; a rule's request ends only its own.
struct ResumeRequested {
  GpuIndex gpu{};
  bool by_rule = false;
};
// The machine will go down: no task starts any more, with or without GPUs. At `empty_by` running
// tasks are stopped and requeued; they are asked to checkpoint earlier, by the longer of
// shutdown_notice and notice of SlotRules. Drains of single GPUs are independent of this.
struct ServerClosed {
  std::string why;  // "The server is ...": by whom, until when
  Time empty_by{};
};
struct ServerOpened {};  // it stays up after all
// All periods for which GPUs are reserved. For repeated reservations the shell sends them again
// before the last known period begins.
struct ReservationsChanged {
  std::vector<ReservedPeriod> periods;
};
// The rules from now on, validated; the pacing, and whether the mapper shares, must not change.
// Running tasks keep their GPUs and claims. If the new rules end tasks that do not use their GPUs,
// those already reported are ended.
struct PolicyChanged {
  PolicyConfig policy;
  // If limits of gpu_hours now cover longer periods: the attempts that count, ordered by their
  // ends. Empty: the core knows them all.
  std::optional<std::vector<Taken>> ended = {};
};
struct WakeUp {};  // the time of a WakeAt has come

using Event =
    std::variant<GpusDiscovered, HostDiscovered, TaskSubmitted, TaskRestored, AttemptRestored,
                 EstimateReady, GpuSampled, HostSampled, ProgressSeen, GpuHealthChanged,
                 SharingChosen, TaskStarted, TaskIdle, LaunchFailed, TaskExited, CancelRequested,
                 HoldRequested, ReleaseRequested, RequeueRequested, PriorityChanged, TaskEdited,
                 DrainRequested, ResumeRequested, ServerClosed, ServerOpened, ReservationsChanged,
                 PolicyChanged, WakeUp>;

// ---- actions, to be performed in order, after they are durable ----

// The task's record changed: store it. Comes before the action that follows from the change.
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
  // It has no neighbours now or later, so the sharing method does not matter, unless others join it
  // while it idles (PolicyConfig::idle_action).
  bool alone = false;
  // Minimum of a memory limit on its first GPU: the claim or, if higher, the predicted bound. 0:
  // nothing is promised.
  std::int64_t bound_mib = 0;
  friend bool operator==(const StartTask&, const StartTask&) = default;
};
struct StopTask {
  TaskId id{};
  int attempt = 0;
  StopCause cause = StopCause::kNone;
  friend bool operator==(const StopTask&, const StopTask&) = default;
};
// The task's time limit is near (TaskRequest::signal_before): signal its process. Sent once, and
// not again after a restart.
struct WarnTask {
  TaskId id{};
  int attempt = 0;
  friend bool operator==(const WarnTask&, const WarnTask&) = default;
};
// The task must leave its GPUs soon (Attempt::leaves_by): send its processes the checkpoint signal.
// Sent again after a restart, because asking twice does no harm.
struct AskToSave {
  TaskId id{};
  int attempt = 0;
  friend bool operator==(const AskToSave&, const AskToSave&) = default;
};
// When the core next needs WakeUp; replaces the previous request. Extra WakeUps are harmless.
struct WakeAt {
  Time when{};
  friend bool operator==(const WakeAt&, const WakeAt&) = default;
};
// An attempt has released its GPUs; store its usage. Comes before the change of its task, once for
// each attempt.
struct AttemptEnded {
  TaskId id{};
  int attempt = 0;
  Taken taken;
  std::vector<GpuIndex> gpus;
  std::optional<Time> started;    // its process ran
  Duration waited{};              // before it, since it was submitted or sent back
  std::int64_t promised_mib = 0;  // on each of its GPUs
  std::int64_t peak_mib = 0;      // highest memory seen on one of them so far
  std::optional<ExitKind> exit;   // empty: it could not be launched
  friend bool operator==(const AttemptEnded&, const AttemptEnded&) = default;
};
using Action = std::variant<TaskChanged, RequestEstimate, StartTask, StopTask, WarnTask, AskToSave,
                            WakeAt, AttemptEnded>;

}  // namespace carma::core

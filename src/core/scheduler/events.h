// What happened (events) and what the shell must do about it (actions).
#pragma once

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

// Once, before anything else. A restart may bring another list; restored placements are already
// translated.
struct GpusDiscovered {
  std::vector<GpuInfo> gpus;
};
// The machine's own cores and memory for tasks, before them; again whenever they are others. Never
// told: nothing of it is counted.
struct HostDiscovered {
  HostInfo host;
};
struct TaskSubmitted {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
};
// A task from an earlier life of the daemon, or a final one that a person requeues (as submitted,
// without its estimate: what is known of its memory may be another by now). The record is taken as
// it is; launching, running and stopping ones hold their claims from here on, and a stopping one is
// stopped again. A submitted or estimating one asks for its estimate anew. A queued one that this
// server can never take (fewer GPUs than before) is kept, passed over, and says so.
struct TaskRestored {
  TaskRecord record;
};
// An attempt of an earlier life of the daemon that has ended: what it took counts for shares and
// limits. Before the tasks of that life.
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
// How busy the machine's cores are, as means over the last seconds: all of it, and each task with
// GPUs. Never told: nothing of it is respected.
struct HostSampled {
  double cpus = 0;  // hardware threads that there are
  double used_cpus = 0;
  std::vector<std::pair<TaskId, double>> tasks_cpus;
};
// The probe's verdict on a GPU or its driver: hung, lost, lying. Closes the GPU until a healthy one
// follows.
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
  // The daemon ended before the start was on its way: nobody's fault, tried again at once, not
  // counted.
  bool interrupted = false;
  // Retryable, and for certain: the machine gave the daemon itself no descriptor, process or
  // memory.
  bool exhausted = false;
  // A lease whose process is there but did not take its GPUs, as one that is suspended: it waits
  // again, later each time, as often as it takes.
  bool not_taken = false;
};
// How the shell starts this attempt; kept with the task. Comes between StartTask and TaskStarted.
struct SharingChosen {
  TaskId id{};
  int attempt = 0;
  Sharing sharing;
};
// A running task has not used the GPUs it holds since then; empty: it does (again). What follows is
// PolicyConfig::idle_action.
struct TaskIdle {
  TaskId id{};
  int attempt = 0;
  std::optional<Time> since;
};
struct TaskExited {
  TaskId id{};
  int attempt = 0;
  ExitInfo exit;
  // kOutOfMemory: the allocation that failed, by the task's own words; 0: it did not say.
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
// Back to the main queue from the start; a running task is stopped first. Final tasks come as
// TaskRestored.
struct RequeueRequested {
  TaskId id{};
};
struct PriorityChanged {
  TaskId id{};
  std::int64_t priority = 0;
};
// What the task asks for from now on, as a person has changed it. Whose it is, its array and its
// hold stay as they are. One that holds GPUs keeps what they were chosen by: only its time limit,
// the signal before it, priority and class are taken. Another memory, or number of GPUs, is
// estimated anew.
struct TaskEdited {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
};
// A person closes a GPU to new tasks, or the rules of health do (by_rule): two drains that do not
// know of each other; the GPU is open when neither holds. empty_by: its tasks are asked to save
// the notice of slots before that (SlotRules), ended then, and wait again.
struct DrainRequested {
  GpuIndex gpu{};
  std::string why;
  bool by_rule = false;
  std::optional<Time> empty_by = std::nullopt;
};
// By a person: both end. By rule: only the rule's own.
struct ResumeRequested {
  GpuIndex gpu{};
  bool by_rule = false;
};
// The machine is to go down: nothing starts any more, with GPUs or without. What runs is asked to
// save the notice before `empty_by` (SlotRules: that of a shutdown, or the usual one where it is
// longer), ended then, and waits again. Beside what closes single GPUs, which stays as it is.
struct ServerClosed {
  std::string why;  // "The server is ...": by whom, until when
  Time empty_by{};
};
struct ServerOpened {};  // it stays up after all
// The periods in which GPUs are reserved by people: all that the core is to know of by now. A shell
// that repeats reservations tells them again when the last it told comes near.
struct ReservationsChanged {
  std::vector<ReservedPeriod> periods;
};
// The rules from now on, validated; the pacing, and whether the mapper shares, stay what they were.
// What was decided by the old ones stands: running tasks keep their GPUs and claims. Where idle
// holders are to be ended from now on, those that are known end.
struct PolicyChanged {
  PolicyConfig policy;
};
struct WakeUp {};  // the time of a WakeAt has come

using Event =
    std::variant<GpusDiscovered, HostDiscovered, TaskSubmitted, TaskRestored, AttemptRestored,
                 EstimateReady, GpuSampled, HostSampled, GpuHealthChanged, SharingChosen,
                 TaskStarted, TaskIdle, LaunchFailed, TaskExited, CancelRequested, HoldRequested,
                 ReleaseRequested, RequeueRequested, PriorityChanged, TaskEdited, DrainRequested,
                 ResumeRequested, ServerClosed, ServerOpened, ReservationsChanged, PolicyChanged,
                 WakeUp>;

// ---- actions, to be performed in order, after they are durable ----

// The task's record changed: keep it. Comes before the action that the change asks for.
struct TaskChanged {
  TaskRecord record;
  bool moved = false;  // its state is another than when it was last kept
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
  // No neighbours now or later, so streams or MPS do not matter; while it idles others may have to
  // join it all the same (PolicyConfig::idle_action).
  bool alone = false;
  // What a memory limit may not go below on the first of its GPUs: more than its claim while the
  // claim is less than what was predicted as its bound. 0: nothing is promised.
  std::int64_t bound_mib = 0;
  friend bool operator==(const StartTask&, const StartTask&) = default;
};
struct StopTask {
  TaskId id{};
  int attempt = 0;
  StopCause cause = StopCause::kNone;
  friend bool operator==(const StopTask&, const StopTask&) = default;
};
// The task's time limit comes (TaskRequest::signal_before): its process is to be told. Once; after
// a restart it is not said again.
struct WarnTask {
  TaskId id{};
  int attempt = 0;
  friend bool operator==(const WarnTask&, const WarnTask&) = default;
};
// It has to leave its GPUs soon (Attempt::leaves_by): its processes are to be asked to save, by its
// checkpoint signal. Said again after a restart, since asking twice does no harm.
struct AskToSave {
  TaskId id{};
  int attempt = 0;
  friend bool operator==(const AskToSave&, const AskToSave&) = default;
};
// The next WakeUp the core needs; takes the place of the one before. A WakeUp too many is harmless.
struct WakeAt {
  Time when{};
  friend bool operator==(const WakeAt&, const WakeAt&) = default;
};
// An attempt holds its GPUs no more; keep what it took. Comes before the change of its task, once
// for each attempt.
struct AttemptEnded {
  TaskId id{};
  int attempt = 0;
  Taken taken;
  std::vector<GpuIndex> gpus;
  std::optional<Time> started;    // its process ran
  Duration waited{};              // before it, since it was submitted or sent back
  std::int64_t promised_mib = 0;  // on each of its GPUs
  std::int64_t peak_mib = 0;      // highest memory seen on one of them, by now
  std::optional<ExitKind> exit;   // empty: it could not be launched
  friend bool operator==(const AttemptEnded&, const AttemptEnded&) = default;
};
using Action = std::variant<TaskChanged, RequestEstimate, StartTask, StopTask, WarnTask, AskToSave,
                            WakeAt, AttemptEnded>;

}  // namespace carma::core

// A task as the core sees it: what it wants, where it stands, what it was promised. Values only.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/copy_on_write.h"
#include "base/fields.h"
#include "base/result.h"
#include "base/signal_name.h"
#include "base/time.h"
#include "base/words.h"
#include "core/values/profile.h"

namespace carma::core {

using base::Duration;
using base::Time;

enum class TaskId : std::uint64_t {};
// Tasks of one user with the same number are the same thing, and need the same memory; 0: not
// known. The shell's word (docs/use/estimates.md).
enum class KindId : std::uint64_t {};
// Position in the server's list, PCI order; GPUs are stored by UUID.
enum class GpuIndex : std::uint32_t {};

constexpr std::uint64_t Number(TaskId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint64_t Number(KindId kind) {
  return static_cast<std::uint64_t>(kind);
}
constexpr std::uint32_t Number(GpuIndex gpu) {
  return static_cast<std::uint32_t>(gpu);
}
// fmt::format("{}", id) gives the number.
constexpr std::uint64_t format_as(TaskId id) {
  return Number(id);
}
constexpr std::uint32_t format_as(GpuIndex gpu) {
  return Number(gpu);
}

// Life of a task. Final states cannot be left except by an explicit requeue.
enum class TaskState : std::uint8_t {
  kSubmitted,   // accepted, its estimate not yet asked for
  kEstimating,  // waiting for the estimator
  kQueued,      // waits for GPUs, a begin time, a dependency, a release or a back-off: see Reason
  kLaunching,   // GPUs promised, its process is being started
  kRunning,
  kStopping,  // asked to end (cancel, time limit, requeue); its process still lives
  kSucceeded,
  kFailed,       // ended by itself with a non-zero exit or a signal, or could not be started
  kCancelled,    // by a person, or its dependency can never be met
  kTimedOut,     // its time limit
  kOutOfMemory,  // ran out of GPU memory and no retry is left
  kLost,         // its process vanished without a report (machine crash)
  kRejected,     // can never fit this server
};
inline constexpr int kTaskStateCount = 13;
inline constexpr std::array<std::pair<TaskState, std::string_view>, kTaskStateCount> kStateWords{{
    {TaskState::kSubmitted, "submitted"},
    {TaskState::kEstimating, "estimating"},
    {TaskState::kQueued, "queued"},
    {TaskState::kLaunching, "launching"},
    {TaskState::kRunning, "running"},
    {TaskState::kStopping, "stopping"},
    {TaskState::kSucceeded, "succeeded"},
    {TaskState::kFailed, "failed"},
    {TaskState::kCancelled, "cancelled"},
    {TaskState::kTimedOut, "timed_out"},
    {TaskState::kOutOfMemory, "out_of_memory"},
    {TaskState::kLost, "lost"},
    {TaskState::kRejected, "rejected"},
}};

// "PD", "R", "CG", "CD", "F", "CA", "TO", "OOM", "NF", "RJ"
std::string_view TaskStateCode(TaskState state);
std::optional<TaskState> ParseTaskState(std::string_view name_or_code);
bool IsFinal(TaskState state);
// True while a process of the task may live, so that its claim counts.
bool HoldsGpus(TaskState state);
// One table of legal steps (scheduler.cc checks every step against it).
bool IsLegalStep(TaskState from, TaskState to);

// Why a task waits, or why it ended where it is. The name is what people see: "(GpuMemory)".
enum class ReasonCode : std::uint8_t {
  kNone,
  kPriority,         // tasks before it in the queue wait
  kResources,        // too few eligible GPUs, for different reasons
  kGpuMemory,        // memory of every GPU is claimed or used
  kSmBusy,           // SM activity above the cap
  kWarmUp,           // the GPU's samples do not yet show the last placement
  kHostBusy,         // the machine's cores are in use, so the tasks there would starve
  kExclusive,        // wants an idle GPU, or an exclusive task holds it
  kDraining,         // closed by the administrator
  kDriverUpgrade,    // closed until the installed driver is the loaded one
  kGpuHealth,        // driver lost, stale or contradictory samples
  kTasksPerGpu,      // as many tasks as allowed
  kRecoveryReserve,  // kept free for a task that is to be recovered
  kHeld,             // by its owner or an administrator
  kBeginTime,
  kDependency,
  kDependencyNeverMet,
  kArrayLimit,  // as many tasks of its array run as may run at once
  kBackoff,     // waits before its next attempt
  kPacing,      // "as published" mode sleeps between decisions
  kEstimating,
  kNeverFits,
  kLaunchFailed,
  kOutOfMemory,
  kNonZeroExit,
  kSignal,
  kTimeLimit,
  kCancelledByUser,
  kRequeuedByUser,
  kNodeFail,        // lost with its machine or its shim
  kVictim,          // ended by a neighbour's fault, not its own
  kGpuFault,        // ended by a fault on the GPU that its own program caused (an Xid of that kind)
  kMigInstance,     // an instance of a divided GPU is not for tasks of several GPUs
  kGain,            // it would add too little to what the GPU gets done
  kSlowdown,        // it or a neighbour would take longer than it may
  kIdleHolder,      // held GPUs without using them
  kMachineTrouble,  // nothing starts on this machine at the moment
  kFairShare,       // others have taken less
  kLimit,           // of its user, account or class
  kRule,            // the server's own condition
  kTimeSlot,        // its turn on its GPUs was over, others waited for them
  kPreempted,       // a class that goes before others needed its GPUs
  kCpus,            // cores of the server are promised to others
  kHostMemory,      // likewise its memory
  kGpuChoice,       // not a GPU that it asks for
  kNotLinked,       // these GPUs are not connected as it asks for
  kReserved,        // kept for somebody else
};
inline constexpr std::pair<ReasonCode, std::string_view> kReasonWords[] = {
    {ReasonCode::kNone, ""},
    {ReasonCode::kPriority, "Priority"},
    {ReasonCode::kResources, "Resources"},
    {ReasonCode::kGpuMemory, "GpuMemory"},
    {ReasonCode::kSmBusy, "SmBusy"},
    {ReasonCode::kWarmUp, "WarmUp"},
    {ReasonCode::kHostBusy, "HostBusy"},
    {ReasonCode::kExclusive, "Exclusive"},
    {ReasonCode::kDraining, "Draining"},
    {ReasonCode::kDriverUpgrade, "DriverUpgrade"},
    {ReasonCode::kGpuHealth, "GpuHealth"},
    {ReasonCode::kTasksPerGpu, "TasksPerGpu"},
    {ReasonCode::kRecoveryReserve, "RecoveryReserve"},
    {ReasonCode::kHeld, "Held"},
    {ReasonCode::kBeginTime, "BeginTime"},
    {ReasonCode::kDependency, "Dependency"},
    {ReasonCode::kDependencyNeverMet, "DependencyNeverMet"},
    {ReasonCode::kArrayLimit, "ArrayLimit"},
    {ReasonCode::kBackoff, "Backoff"},
    {ReasonCode::kPacing, "Pacing"},
    {ReasonCode::kEstimating, "Estimating"},
    {ReasonCode::kNeverFits, "NeverFits"},
    {ReasonCode::kLaunchFailed, "LaunchFailed"},
    {ReasonCode::kOutOfMemory, "OutOfMemory"},
    {ReasonCode::kNonZeroExit, "NonZeroExit"},
    {ReasonCode::kSignal, "Signal"},
    {ReasonCode::kTimeLimit, "TimeLimit"},
    {ReasonCode::kCancelledByUser, "CancelledByUser"},
    {ReasonCode::kRequeuedByUser, "RequeuedByUser"},
    {ReasonCode::kNodeFail, "NodeFail"},
    {ReasonCode::kVictim, "Victim"},
    {ReasonCode::kGpuFault, "GpuFault"},
    {ReasonCode::kMigInstance, "MigInstance"},
    {ReasonCode::kGain, "Gain"},
    {ReasonCode::kSlowdown, "Slowdown"},
    {ReasonCode::kIdleHolder, "IdleHolder"},
    {ReasonCode::kMachineTrouble, "MachineTrouble"},
    {ReasonCode::kFairShare, "FairShare"},
    {ReasonCode::kLimit, "Limit"},
    {ReasonCode::kRule, "Rule"},
    {ReasonCode::kTimeSlot, "TimeSlot"},
    {ReasonCode::kPreempted, "Preempted"},
    {ReasonCode::kCpus, "Cpus"},
    {ReasonCode::kHostMemory, "HostMemory"},
    {ReasonCode::kGpuChoice, "GpuChoice"},
    {ReasonCode::kNotLinked, "NotLinked"},
    {ReasonCode::kReserved, "Reserved"},
};

struct Reason {
  ReasonCode code = ReasonCode::kNone;
  // One plain sentence with the numbers, for `carma show` and `carma explain`; most that wait have
  // none.
  base::CopyOnWrite<std::string> text;
  friend bool operator==(const Reason&, const Reason&) = default;
};

enum class DependencyKind { kAfterOk, kAfterAny, kAfterNotOk };
inline constexpr std::array<std::pair<DependencyKind, std::string_view>, 3> kDependencyWords{{
    {DependencyKind::kAfterOk, "afterok"},
    {DependencyKind::kAfterAny, "afterany"},
    {DependencyKind::kAfterNotOk, "afternotok"},
}};
struct Dependency {
  TaskId task{};
  DependencyKind kind = DependencyKind::kAfterOk;
  // Final state of a task the core no longer holds, filled in by the shell; empty: the core knows
  // the task.
  std::optional<TaskState> known_final;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& dependency) {
    field("task", dependency.task, "Task number.",
          {.low = 1, .required = true, .expected = "a task number from 1"});
    field("kind", dependency.kind, "Which end of that task it waits for.");
    field("known_final", dependency.known_final,
          "Final state of a task the daemon no longer holds; set by the daemon.",
          {.expected = "a final task state"});
  }
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

// Limits on what may be asked; every reader enforces them.
inline constexpr int kMaxGpus = 1024;
inline constexpr std::int64_t kMaxMemoryMib = std::int64_t{1} << 24;  // 16 TiB on one GPU
inline constexpr double kMinSmShare = 0.01;
inline constexpr double kMostSlowdown = 1000;
inline constexpr std::int64_t kMaxPriority = 1'000'000'000;
inline constexpr std::int64_t kMaxBeginMs = 7'258'118'400'000;  // the year 2200
inline constexpr std::size_t kMaxDependencies = 1000;
inline constexpr Duration kMaxTimeLimit = std::chrono::hours(24 * 3660);
inline constexpr Duration kMaxSignalBefore = std::chrono::seconds(65'535);  // as Slurm
inline constexpr int kMaxRecoveries = 1000;
inline constexpr int kMaxCpus = 65'536;
inline constexpr std::int64_t kMaxHostMemoryMib = std::int64_t{1} << 30;  // 1 PiB
inline constexpr std::int64_t kMaxArrayIndex = 1'000'000'000;
// A GPU as people name it: its index or its UUID.
bool IsGpuName(std::string_view name);
// A part of a GPU's name, of letters, digits, blanks and "-_.": "a100", "RTX 6000".
bool IsGpuTypeWord(std::string_view word);
inline constexpr base::FieldRule kGpuNames{.max_bytes = 64,
                                           .max_items = kMaxGpus,
                                           .fits = IsGpuName,
                                           .unless_empty = true,
                                           .expected = "the index or the UUID of a GPU"};
// What an account or a class may be called: 1 to 64 letters, digits, and "_-+.".
bool IsShareName(std::string_view name);
inline constexpr base::FieldRule kShareName{
    .max_bytes = 64, .fits = IsShareName, .expected = "1 to 64 letters, digits, or _-+."};

// What the submitter asks of the server. The fields are those of a task's description in JSON
// (task/describe/spec.h) and of the columns in which the store keeps them (store/tables.h).
struct TaskRequest {
  int gpus = 1;
  std::optional<std::int64_t> memory_mib;
  std::optional<int> cpus;
  std::optional<std::int64_t> host_memory_mib;
  bool own_cpus = false;
  std::optional<std::string> gpu_type;
  std::optional<std::int64_t> gpu_memory_min_mib;
  std::vector<std::string> on_gpus;
  std::vector<std::string> not_on_gpus;
  bool linked_gpus = false;
  bool exclusive = false;
  std::optional<double> sm_share;
  std::optional<double> max_slowdown;  // beside the server's own limit: the smaller counts
  std::int64_t priority = 0;
  std::uint32_t uid = 0;               // the daemon's word, no field
  std::string user;                    // his name; likewise, and kept apart by the store
  std::optional<std::string> account;  // whom its use is booked on beside him
  std::optional<std::string> qos;      // its class (core/entitlement.h); empty: the usual one
  std::optional<Time> begin;
  std::vector<Dependency> dependencies;
  std::optional<Duration> time_limit;
  std::optional<Duration> signal_before;  // the time limit: its process is told so long before it
  int max_recoveries = 3;
  bool requeue = true;
  bool no_slots = false;
  std::optional<std::string> checkpoint_signal;
  bool held = false;
  std::optional<TaskId> array;  // the first task of its array: the daemon's word, no field
  int array_limit = 0;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& task) {
    field("gpus", task.gpus, "GPUs wanted, all of one server; 0: cores and memory only.",
          {.low = 0, .high = kMaxGpus});
    field("memory_mib", task.memory_mib,
          "Expected peak of GPU memory per GPU, as the user states it.",
          {.low = 1, .high = kMaxMemoryMib, .expected = "a number from 1 to 16777216 MiB per GPU"});
    field("cpus", task.cpus, "Cores of the server that are kept for it.",
          {.low = 1, .high = kMaxCpus});
    field("host_memory_mib", task.host_memory_mib,
          "Memory of the server, not of its GPUs, that is kept for it; it may not use more.",
          {.low = 1, .high = kMaxHostMemoryMib});
    field("own_cpus", task.own_cpus, "Its cores stay the same, and no other task may use them.",
          {.unless_empty = true});
    field("gpu_type", task.gpu_type, "Only GPUs with this in their model name: a100 …",
          {.max_bytes = 64, .fits = IsGpuTypeWord, .expected = "a part of a GPU's name"});
    field("gpu_memory_min_mib", task.gpu_memory_min_mib,
          "Only GPUs with at least this much memory in all.", {.low = 1, .high = kMaxMemoryMib});
    field("on_gpus", task.on_gpus, "Only these GPUs.", kGpuNames);
    field("not_on_gpus", task.not_on_gpus, "Not on these GPUs.", kGpuNames);
    field("linked_gpus", task.linked_gpus, "Only GPUs that are connected with each other (NVLink).",
          {.unless_empty = true});
    field("exclusive", task.exclusive, "No other task may use its GPUs.");
    field("sm_share", task.sm_share,
          "At most this share of each GPU's SMs, if the sharing method can enforce it (MPS).",
          {.least = kMinSmShare, .most = 1, .expected = "a fraction from 0.01 to 1"});
    field("max_slowdown", task.max_slowdown,
          "Never placed where it would take longer than this many times its run time alone, as far "
          "as known; nor are neighbours added that would slow it down more.",
          {.least = 1, .most = kMostSlowdown, .expected = "a number from 1 to 1000"});
    field("priority", task.priority,
          "Tasks with a higher value start first; only administrators may raise it above 0.",
          {.low = -kMaxPriority, .high = kMaxPriority});
    field("account", task.account, "Account for its use of GPUs.", kShareName);
    field("qos", task.qos, "Class of the task, one of the configured ones: interactive …",
          kShareName);
    field("time_limit_s", task.time_limit, "Stopped after running this long.",
          {.low = 1,
           .high = kMaxTimeLimit.count(),
           .expected = "more than 0 seconds and at most 10 years"});
    field("signal_before_s", task.signal_before, "How long before its time limit it gets a signal.",
          {.low = 1,
           .high = kMaxSignalBefore.count(),
           .expected = "more than 0 seconds and at most 65535"});
    field("begin_ms", task.begin, "Not started before this time (ms since the epoch).",
          {.low = 0, .high = kMaxBeginMs, .expected = "a time between the years 1970 and 2200"});
    field("dependencies", task.dependencies, "",
          {.max_items = kMaxDependencies, .unless_empty = true});
    field("max_recoveries", task.max_recoveries,
          "Restarts after running out of GPU memory; 0: the first time is final.",
          {.low = 0, .high = kMaxRecoveries});
    field("requeue", task.requeue, "Start again when its machine or GPU is lost.");
    field("no_slots", task.no_slots, "Not ended when its time slot ends.", {.unless_empty = true});
    field("checkpoint_signal", task.checkpoint_signal,
          "Signal that asks it to save its work before it is ended, to continue later: USR1 …",
          {.max_bytes = 16,
           .fits = base::IsSignalName,
           .expected = "the name of a signal such as USR1"});
    field("held", task.held, "Submitted on hold.");
    field("array_limit", task.array_limit, "The most tasks of the array that run at once.",
          {.low = 1, .high = kMaxArrayIndex, .unless_empty = true});
  }
  friend bool operator==(const TaskRequest&, const TaskRequest&) = default;
};

// Expected peak per GPU.
struct Estimate {
  std::int64_t peak_mib = 0;  // what is promised: a bound, where the method has one
  std::string method;         // "given", "rad", "structural", "history" …
  // The most likely value, which the bound was made of; empty: peak_mib itself.
  std::optional<std::int64_t> predicted_mib;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

struct Placement {
  GpuIndex gpu{};
  // Promised from the moment of the decision; 0: no estimate, only what is seen counts.
  std::int64_t claim_mib = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// How the processes of one attempt share their GPUs, and what is enforced on each of them there.
// Chosen by the shell when it starts the attempt.
enum class SharingMethod {
  kUnknown,  // not started yet, by an older daemon, or without GPUs
  kAlone,    // no neighbours now or later
  kStreams,  // time slices of the driver
  kMps,      // clients of an MPS server of their own user and GPU
  kMig,      // an instance of a divided GPU: the hardware enforces memory and SMs
};
inline constexpr std::pair<SharingMethod, std::string_view> kSharingMethodWords[] = {
    {SharingMethod::kUnknown, ""},        {SharingMethod::kAlone, "alone"},
    {SharingMethod::kStreams, "streams"}, {SharingMethod::kMps, "mps"},
    {SharingMethod::kMig, "mig"},
};
struct Sharing {
  SharingMethod method = SharingMethod::kUnknown;
  std::int64_t memory_limit_mib = 0;  // per process, enforced by the MPS server; 0: none
  int thread_percent = 0;             // of the SMs, enforced by the MPS server; 0: no limit
  // The GPUs that its MPS server serves, as task::MpsServerId::gpus; empty: it is no client.
  std::string server;
  std::string note;  // why it is not what the configuration asks for, one sentence; or empty
  // On each of its GPUs, of all its processes together, enforced by the kernel; 0: none.
  std::int64_t group_limit_mib = 0;
  // The smaller of the limits; 0: none.
  std::int64_t LimitMib() const {
    if (memory_limit_mib == 0 || group_limit_mib == 0)
      return std::max(memory_limit_mib, group_limit_mib);
    return std::min(memory_limit_mib, group_limit_mib);
  }
  friend bool operator==(const Sharing&, const Sharing&) = default;
};

// What an attempt is promised of the server beside GPUs.
struct HostShare {
  int cpus = 0;                 // 0: none were counted for it
  std::int64_t memory_mib = 0;  // likewise
  std::string cores;            // those that are its own, as base/cpu_list.h writes them; or empty
  friend bool operator==(const HostShare&, const HostShare&) = default;
};

enum class ExitKind {
  kSuccess,
  kFailed,       // non-zero exit or signal of its own
  kOutOfMemory,  // abnormal end with the evidence of task/verdict/oom_detect.h
  kHostMemory,   // killed for host memory: a failure, a bigger GPU would not help
  kVictim,       // ended by a neighbour's fault (MPS): not charged
  kLost,         // no report, the process is gone
  kGpuFault,     // a fault on the GPU that the program caused itself: a failure with its own name
  kDeviceFault,  // the GPU's own fault: not charged, starts again elsewhere
};
inline constexpr std::pair<ExitKind, std::string_view> kExitWords[] = {
    {ExitKind::kSuccess, "success"},
    {ExitKind::kFailed, "failed"},
    {ExitKind::kOutOfMemory, "out_of_memory"},
    {ExitKind::kHostMemory, "host_memory"},
    {ExitKind::kVictim, "victim"},
    {ExitKind::kLost, "lost"},
    {ExitKind::kGpuFault, "gpu_fault"},
    {ExitKind::kDeviceFault, "device_fault"},
};
struct ExitInfo {
  ExitKind kind = ExitKind::kSuccess;
  int code = 0;    // exit status; 0 if signalled
  int signal = 0;  // 0 if it exited
  // The line that tells, e.g. the framework's own OOM message; one line, printable.
  std::string detail;
  friend bool operator==(const ExitInfo&, const ExitInfo&) = default;
};

enum class QueueKind : std::uint8_t { kMain, kRecovery };
inline constexpr std::pair<QueueKind, std::string_view> kQueueWords[] = {
    {QueueKind::kMain, "main"},
    {QueueKind::kRecovery, "recovery"},
};

enum class StopCause {
  kNone,
  kCancel,
  kTimeLimit,
  kRequeue,
  kGpuLost,
  kIdle,
  kTimeSlot,   // its turn was over, others waited
  kPreempted,  // a class that goes before others needed the place
  kDrained,    // its GPU was to be empty by then
};
inline constexpr std::pair<StopCause, std::string_view> kStopWords[] = {
    {StopCause::kNone, "none"},
    {StopCause::kCancel, "cancel"},
    {StopCause::kTimeLimit, "time_limit"},
    {StopCause::kRequeue, "requeue"},
    {StopCause::kGpuLost, "gpu_lost"},
    {StopCause::kIdle, "idle"},
    {StopCause::kTimeSlot, "time_slot"},
    {StopCause::kPreempted, "preempted"},
    {StopCause::kDrained, "drained"},
};

// One start of a task: where it was put and how that went.
struct Attempt {
  int number = 0;  // from 1; 0: never started
  std::vector<Placement> placement;
  Reason placement_reason;  // why these GPUs
  HostShare host;
  Sharing sharing;
  std::optional<Time> launched;     // decided
  std::optional<Time> started;      // its process runs
  std::optional<Time> idle_since;   // it holds GPUs and has not used them since then
  std::optional<Time> warned;       // that its time limit comes (TaskRequest::signal_before)
  std::optional<Time> slot_notice;  // it was asked to save, because it has to leave its place
  StopCause notice_cause = StopCause::kNone;  // why it has to
  std::optional<Time> leaves_by;              // ended then, if it has not ended by itself
  StopCause stopping = StopCause::kNone;
  // What is left of it once its task waits again.
  Attempt Past() const;
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// Everything the core knows about one task; the store keeps it, a restart hands it back
// (TaskRestored). A hundred thousand may wait: what they have in common is held by all of them
// together, and what only those have that ran is kept apart.
struct TaskRecord {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
  TaskState state = TaskState::kSubmitted;
  QueueKind queue = QueueKind::kMain;
  bool held = false;
  Reason reason;  // why it waits or how it ended; empty while it runs
  // Empty: none possible, the floor rule applies.
  base::SharedOptional<Estimate> estimate;
  KindId kind{};                       // known with the estimate
  base::CopyOnWrite<Profile> profile;  // likewise, as predicted; empty: nothing is known
  base::CopyOnWrite<Profile> seen;     // what its last attempt has shown; no restart needs it
  base::CopyOnWrite<Attempt> attempt;  // the current one, or the last
  int ooms = 0;
  int launch_failures = 0;
  int node_failures = 0;
  int victim_restarts = 0;  // after neighbours' faults
  int checkpoints = 0;      // times it saved and ended when it was asked to
  int cut_off = 0;          // times it had to be ended then
  // Recovery: the next start needs at least this much free memory on each GPU, or idle GPUs.
  std::optional<std::int64_t> retry_free_mib;
  bool retry_on_idle_gpu = false;
  std::optional<Time> not_before;  // back-off
  Time submitted{};
  Time queued_since{};              // last time it entered a queue
  std::optional<Time> first_start;  // first launch decision
  std::optional<Time> ended;
  base::CopyOnWrite<ExitInfo> exit;  // of the last attempt that has ended
  std::int64_t peak_mib = 0;         // highest memory seen on one GPU, all attempts
  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// By id; of the core those that are not final.
using TaskRecords = std::map<TaskId, TaskRecord>;

// The task from the start: what its attempts taught is kept (their number, the peak, the last
// exit), their failures are not held against it. Of a final one the estimate is forgotten too, and
// a hold: it is as submitted. Why and when it waits again is the caller's to say.
TaskRecord AsSubmitted(TaskRecord task);

}  // namespace carma::core

// What people, the API and the store call them.
namespace carma {
template <>
inline constexpr base::Words<core::TaskState> base::kWordsOf<core::TaskState> = core::kStateWords;
template <>
inline constexpr base::Words<core::ReasonCode> base::kWordsOf<core::ReasonCode> =
    core::kReasonWords;
template <>
inline constexpr base::Words<core::DependencyKind> base::kWordsOf<core::DependencyKind> =
    core::kDependencyWords;
template <>
inline constexpr base::Words<core::SharingMethod> base::kWordsOf<core::SharingMethod> =
    core::kSharingMethodWords;
template <>
inline constexpr base::Words<core::ExitKind> base::kWordsOf<core::ExitKind> = core::kExitWords;
template <>
inline constexpr base::Words<core::QueueKind> base::kWordsOf<core::QueueKind> = core::kQueueWords;
template <>
inline constexpr base::Words<core::StopCause> base::kWordsOf<core::StopCause> = core::kStopWords;
}  // namespace carma

namespace carma::core {

inline std::string_view TaskStateName(TaskState state) {
  return base::WordOf(state);
}
inline std::string_view ReasonName(ReasonCode code) {
  return base::WordOf(code);
}
inline std::string_view SharingMethodName(SharingMethod method) {
  return base::WordOf(method);
}

}  // namespace carma::core

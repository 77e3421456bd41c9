// A task as the core sees it: what it wants, where it stands, what it was promised. Values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/copy_on_write.h"
#include "base/time.h"
#include "base/words.h"
#include "core/values/ids.h"
#include "core/values/profile.h"
#include "core/values/reason.h"
#include "core/values/task_request.h"
#include "core/values/task_state.h"

namespace carma::core {

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

inline std::string_view SharingMethodName(SharingMethod method) {
  return base::WordOf(method);
}

}  // namespace carma::core

// A task as the core sees it: what it asks for, its state, what it was promised. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/copy_on_write.h"
#include "base/time.h"
#include "core/values/exit.h"
#include "core/values/ids.h"
#include "core/values/profile.h"
#include "core/values/promise.h"
#include "core/values/reason.h"
#include "core/values/sharing.h"
#include "core/values/task_request.h"
#include "core/values/task_state.h"

namespace carma::core {

// One attempt to run a task: where it was placed and how it went.
struct Attempt {
  int number = 0;  // from 1; 0: never started
  std::vector<Placement> placement;
  Reason placement_reason;  // why these GPUs
  HostShare host;
  Sharing sharing;
  std::optional<Time> launched;     // decided
  std::optional<Time> started;      // when its process began
  std::optional<Time> idle_since;   // since when it has held GPUs without using them
  std::optional<Time> warned;       // when, of its time limit (TaskRequest::signal_before)
  std::optional<Time> slot_notice;  // when it was asked to checkpoint, because it has to leave
  StopCause notice_cause = StopCause::kNone;  // why it has to
  std::optional<Time> leaves_by;              // when it is stopped if it has not ended by itself
  StopCause stopping = StopCause::kNone;
  // What remains of this attempt in the record once its task waits again.
  Attempt Past() const;
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// Everything the core knows about one task; the store keeps it, a restart hands it back
// (TaskRestored). A hundred thousand may wait: values that many tasks share are stored once, and
// values that only started tasks have are stored separately.
struct TaskRecord {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
  TaskState state = TaskState::kSubmitted;
  QueueKind queue = QueueKind::kMain;
  bool held = false;
  Reason reason;  // why it waits or how it ended; empty while it runs
  // Empty: no estimate is possible, so the floor rule applies.
  base::SharedOptional<Estimate> estimate;
  KindId kind{};                       // known with the estimate
  base::CopyOnWrite<Profile> profile;  // as predicted, with the estimate; empty: nothing is known
  base::CopyOnWrite<Profile> seen;     // what its last attempt has shown; no restart needs it
  base::CopyOnWrite<Attempt> attempt;  // the current one, or the last
  int ooms = 0;
  int launch_failures = 0;
  int node_failures = 0;
  int victim_restarts = 0;  // after neighbours' faults
  int checkpoints = 0;      // times it saved and ended when it was asked to
  int cut_off = 0;          // times it had to be stopped after that
  // Recovery: the next start needs at least this much free memory on each GPU, or idle GPUs.
  std::optional<std::int64_t> retry_free_mib;
  bool retry_on_idle_gpu = false;
  std::optional<Time> not_before;  // back-off
  Time submitted{};
  Time queued_since{};              // last time it began to wait for GPUs
  std::optional<Time> first_start;  // first launch decision
  std::optional<Time> ended;
  base::CopyOnWrite<ExitInfo> exit;  // of the last attempt that has ended
  std::int64_t peak_mib = 0;         // highest memory seen on one GPU, all attempts
  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// The task as it is when it starts from the beginning: what its attempts showed is kept (their
// number, the peak, the last exit), but their failures no longer count. For a final task the
// estimate and a hold are dropped too. The caller sets the reason for waiting and its time.
TaskRecord AsSubmitted(TaskRecord task);

}  // namespace carma::core

// A task in the core: its request, its state and its promises. Values only.
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

// One attempt to run a task: where it was placed and what happened to it.
struct Attempt {
  int number = 0;  // counts from 1; 0 if never started
  std::vector<Placement> placement;
  Reason placement_reason;  // why these GPUs were chosen
  HostShare host;
  Sharing sharing;
  std::optional<Time> launched;    // when the start was decided; empty if it did not start
  std::optional<Time> started;     // when its process started
  std::optional<Time> idle_since;  // since when it has held GPUs without using them
  // When it received the warning signal before its time limit (TaskRequest::signal_before).
  std::optional<Time> warned;
  std::optional<Time> slot_notice;  // when it was asked to checkpoint because it must leave
  StopCause notice_cause = StopCause::kNone;  // why it must leave
  std::optional<Time> leaves_by;              // when it is stopped if it has not exited by then
  StopCause stopping = StopCause::kNone;
  // The part of this attempt that the task's record keeps once the task waits again.
  Attempt Past() const;
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// Everything that the core knows about one task. The store saves it, and the core gets it back
// after a restart (TaskRestored). A hundred thousand tasks may be waiting, so values shared by many
// tasks are stored once, and values that only started tasks have are stored separately.
struct TaskRecord {
  TaskId id{};
  base::CopyOnWrite<TaskRequest> request;
  TaskState state = TaskState::kSubmitted;
  QueueKind queue = QueueKind::kMain;
  bool held = false;
  Reason reason;  // why it waits or how it ended; empty while it runs
  // Empty if no estimate was possible; the floor rule then applies.
  base::SharedOptional<Estimate> estimate;
  KindId kind{};                       // becomes known with the estimate
  base::CopyOnWrite<Profile> profile;  // predicted, with the estimate; empty if unknown
  base::CopyOnWrite<Profile> seen;     // measured in its last attempt; not needed after a restart
  base::CopyOnWrite<Attempt> attempt;  // the current or last one
  int ooms = 0;
  int launch_failures = 0;
  int node_failures = 0;
  int victim_restarts = 0;  // restarts after neighbours' faults
  int checkpoints = 0;      // how often it saved and exited when asked to
  int cut_off = 0;          // how often it had to be stopped after being asked
  // For recovery: free memory that the next start requires on each GPU, and whether it requires
  // idle GPUs.
  std::optional<std::int64_t> retry_free_mib;
  bool retry_on_idle_gpu = false;
  std::optional<Time> not_before;  // no start before this time (back-off)
  Time submitted{};
  Time queued_since{};              // when it last began to wait for GPUs
  std::optional<Time> first_start;  // first launch decision
  std::optional<Time> ended;
  base::CopyOnWrite<ExitInfo> exit;  // how the last finished attempt ended
  std::int64_t peak_mib = 0;         // highest memory seen on one GPU in any attempt
  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// Resets a task so that it starts from the beginning. What was learned from its attempts is kept
// (their number, the peak, the last exit), but their failures no longer count. A task in a final
// state also loses its estimate and its hold. The caller sets `reason` and `queued_since`.
TaskRecord AsSubmitted(TaskRecord task);

}  // namespace carma::core

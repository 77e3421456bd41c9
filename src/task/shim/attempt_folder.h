// Manages an attempt's folder for carmad: creates it, reads its outcome, and removes it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/process_id.h"
#include "base/result.h"
#include "task/process/cgroup.h"
#include "task/shim/launcher.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// Creates the folder with the order and the script. Returns kInvalid if the order can never run,
// kConflict if the attempt already has an owner, or a system error.
Result<Unit> PrepareAttempt(const LaunchOrder& order, const CgroupBase& cgroup);

enum class OutcomeKind {
  kLives,       // the shim is running
  kReported,    // the shim left a report
  kNeverBegan,  // the task never began and never will, because the attempt was abandoned
  kLost,        // the shim or the folder is gone without a report; remaining processes are killed
  kUnknown,     // temporarily unreadable (no descriptor, no memory); try again
};
struct Outcome {
  OutcomeKind kind{};
  base::ProcessId shim;                // for kLives, and for kUnknown if it is alive
  std::optional<ShimStarted> started;  // set if the task is known to have started
  ShimReport report;                   // for kReported
  std::string text;                    // for kNeverBegan and kLost: the reason
  std::string leftover_group;  // for kLost: cgroup folder that must be removed later, or empty
};
// Determines the outcome of an attempt. If the attempt has no owner, claims and abandons it, so
// that a shim that starts late cannot run it. If the attempt is known to have started but its
// folder does not show this, the outcome is kLost, not kNeverBegan. cgroup: as for PrepareAttempt.
Outcome SettleAttempt(const KnownAttempt& attempt, const CgroupBase& cgroup);

// The folder of the attempt's cgroup; empty if `base` is empty, because no groups are used then.
// base: CgroupBase::path.
std::string GroupOf(const KnownAttempt& attempt, const std::string& base, pid_t shim);

Result<ShimOrder> ReadOrder(const std::string& attempt_dir);
// The attempt's grace period between TERM and KILL; empty if its launch order cannot be read.
std::optional<base::Duration> KillGraceOf(const std::string& attempt_dir);

// Records the task's deadline in the attempt's folder (kDeadlineFile); empty if the task may stay.
// asked: true once the checkpoint signal has been sent.
Result<Unit> StateDeadline(const std::string& attempt_dir, std::optional<base::Time> leaves_by,
                           bool asked);

// Returns true if the checkpoint signal for this deadline has already been sent, before a restart
// of carmad.
bool WasAsked(const std::string& attempt_dir, base::Time leaves_by);

// Records why the task is stopped (kStopFile).
Result<Unit> StateStop(const std::string& attempt_dir, const std::string& why);

// Removes the folders of attempts below `folder` (…/attempts) unless `kept` returns true for the
// attempt or its shim is alive. Does not touch other files. Returns the number of removed folders.
std::size_t SweepAttempts(const std::string& folder,
                          const std::function<bool(core::TaskId, int attempt)>& kept);

// Removes the attempt's folder, and the task's folder above if it is empty. Does not follow links.
Result<Unit> RemoveAttempt(const std::string& attempt_dir);

std::optional<ShimStarted> ReadStarted(const std::string& attempt_dir);

// The real time since the attempt's process began, unaffected by clock changes. Empty if the
// attempt is not known to have started, or started before the last boot.
std::optional<base::Duration> SinceStart(const std::string& attempt_dir);

}  // namespace carma::task

// carmad's side of an attempt's folder: making it, reading its outcome, removing it.
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

// Makes the folder with the order and the script. Errors: kInvalid if the order can never run,
// kConflict if the attempt already has an owner, else the system's.
Result<Unit> PrepareAttempt(const LaunchOrder& order, const CgroupBase& cgroup);

enum class OutcomeKind {
  kLives,       // its shim runs
  kReported,    // its shim left a report
  kNeverBegan,  // and never will: it has been abandoned
  kLost,        // its shim or folder is gone without a report; its remaining processes are
                // killed
  kUnknown,     // unreadable now (no descriptor, no memory): ask again
};
struct Outcome {
  OutcomeKind kind{};
  base::ProcessId shim;                // kLives
  std::optional<ShimStarted> started;  // if its task is known to have started
  ShimReport report;                   // kReported
  std::string text;                    // kNeverBegan, kLost: why
  std::string leftover_group;          // kLost: cgroup folder that must be removed later; or empty
};
// Determines the outcome of an attempt. An attempt without owner is claimed and thereby abandoned,
// so that a late shim cannot run it. An attempt known to have started is never kNeverBegan: if its
// folder no longer shows it, it is lost. cgroup: as in PrepareAttempt.
Outcome SettleAttempt(const KnownAttempt& attempt, const CgroupBase& cgroup);

// The time between TERM and KILL for the attempt; empty: its order cannot be read.
std::optional<base::Duration> KillGraceOf(const std::string& attempt_dir);

// Removes the folders of all attempts below `folder` (…/attempts), except those that are `kept` and
// those with a living shim. Other names are left alone. Returns the number removed.
std::size_t SweepAttempts(const std::string& folder,
                          const std::function<bool(core::TaskId, int attempt)>& kept);

// Removes the folder, and the task's folder above if it is empty, without following links.
Result<Unit> RemoveAttempt(const std::string& attempt_dir);

std::optional<ShimStarted> ReadStarted(const std::string& attempt_dir);

// The real time since its process began, whatever the time of day was set to; empty: not known to
// have started, or before the last boot.
std::optional<base::Duration> SinceStart(const std::string& attempt_dir);

}  // namespace carma::task

// carmad's side of an attempt's folder: making it, reading what became of it, removing it.
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

// Makes the folder with the order and the script in it. Errors: kInvalid if the order can never be
// run, kConflict if the attempt has an owner already, else the system's.
base::Result<base::Unit> PrepareAttempt(const LaunchOrder& order, const CgroupBase& cgroup);

enum class OutcomeKind {
  kLives,       // its shim runs
  kReported,    // its shim left a report
  kNeverBegan,  // and never will: this call or an earlier one has abandoned it
  kLost,     // its shim or its folder is gone without a report; what was left of its processes is
             // killed
  kUnknown,  // the machine cannot read it now (no descriptor, no memory): ask again
};
struct Outcome {
  OutcomeKind kind{};
  base::ProcessId shim;                // kLives
  std::optional<ShimStarted> started;  // if its task is known to have begun
  ShimReport report;                   // kReported
  std::string text;                    // kNeverBegan, kLost: why
  std::string leftover_group;          // kLost: cgroup folder that must be removed later; or empty
};
// Settles how the attempt stands. An attempt that nobody owns is claimed and thereby abandoned, so
// that a shim that comes late cannot run it. One that is known to have started never "never began":
// if its folder does not tell of it any more, it is lost. cgroup: as PrepareAttempt was told.
Outcome SettleAttempt(const KnownAttempt& attempt, const CgroupBase& cgroup);

// How long the attempt's shim waits between TERM and KILL; empty: its order cannot be read.
std::optional<base::Duration> KillGraceOf(const std::string& attempt_dir);

// Removes below `folder` (…/attempts) the folders of all attempts but those that are `kept` and
// those whose shim lives. What is not named like an attempt is left alone. Returns how many went.
std::size_t SweepAttempts(const std::string& folder,
                          const std::function<bool(core::TaskId, int attempt)>& kept);

// Removes the folder, and the task's folder above if it is empty, without following links.
base::Result<base::Unit> RemoveAttempt(const std::string& attempt_dir);

std::optional<ShimStarted> ReadStarted(const std::string& attempt_dir);

}  // namespace carma::task

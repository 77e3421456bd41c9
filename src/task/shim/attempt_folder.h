// carmad's side of an attempt's folder: making it, reading what became of it, removing it.
#pragma once

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
  kLost,        // its shim is gone without a report; what was left of its processes is killed
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
// that a shim that comes late cannot run it.
Outcome SettleAttempt(core::TaskId id, int attempt, const std::string& attempt_dir);

// Removes the folder, and the task's folder above if it is empty, without following links.
base::Result<base::Unit> RemoveAttempt(const std::string& attempt_dir);

std::optional<ShimStarted> ReadStarted(const std::string& attempt_dir);

}  // namespace carma::task

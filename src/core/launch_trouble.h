// Tells trouble of the machine from trouble of a task, by launches that fail.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/task.h"

namespace carma::core {

// Launches that fail one after the other, by no fault of their tasks, may say that the machine
// starts nothing (no processes, descriptors or memory left). Then the tasks are innocent, and to go
// on would only use up the tries of one after the other: nothing is started but one task now and
// then, until a start that was made since then succeeds.
class LaunchTrouble {
 public:
  // So many different tasks in a row show it.
  static constexpr std::size_t kFailures = 3;
  // Between two trials.
  static constexpr Duration kTrialEvery{10'000};

  // A launch failed by the machine's fault. Returns the tasks, this one among them, whose failures
  // in this row are the machine's as is now known, with how many of them were counted before;
  // empty: it may still be the task's own.
  std::map<TaskId, int> Failed(Time now, const TaskRecord& task, const std::string& why);
  // An attempt that was decided on at that time runs.
  void Works(Time launched);
  // A start was decided on.
  void Tried(Time now) { next_trial_ = now + kTrialEvery; }

  bool on() const { return !why_.empty(); }
  // False while it is on and the last trial is not long enough ago.
  bool MayTry(Time now) const { return !on() || now >= next_trial_; }
  // Empty unless it is on.
  std::optional<Time> NextTrial() const { return on() ? std::optional(next_trial_) : std::nullopt; }
  // Somebody else's tasks are better trials: what looks like the machine may be one user's files.
  bool FailedFor(std::uint32_t uid) const { return users_.contains(uid); }
  // One sentence; empty unless it is on.
  std::string Text() const;

 private:
  std::map<TaskId, int> row_;      // how often each failed since the last start that succeeded
  std::set<std::uint32_t> users_;  // of these
  Time last_failure_{};
  Time next_trial_{};
  std::string why_;  // the last failure; empty: it is not on
};

}  // namespace carma::core

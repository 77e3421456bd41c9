// Tells trouble of the machine from trouble of a task, by launches that fail.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/values/task.h"

namespace carma::core {

// Launches of different tasks that fail, by no fault of theirs, may say that the machine starts
// nothing (no processes, descriptors or memory left). Then the tasks are innocent, and to go on
// would only use up the tries of one after the other: nothing is started but one task now and then,
// until a start that was made since then succeeds.
class LaunchTrouble {
 public:
  // So many different tasks within this time show it. Others may start in between: where the
  // machine is full, each end makes room for a task, but not for the same unlucky ones.
  static constexpr std::size_t kFailures = 3;
  static constexpr Duration kWindow{600'000};
  // Between two trials.
  static constexpr Duration kTrialEvery{10'000};

  // A launch failed by the machine's fault. Returns the tasks, this one among them, whose failures
  // are the machine's as is now known, with how many of them were counted before; empty: it may
  // still be the task's own. certain: it cannot be, one failure is enough.
  std::map<TaskId, int> Failed(Time now, const TaskRecord& task, const std::string& why,
                               bool certain = false);
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
  struct Failures {
    int count = 0;
    Time last{};
  };
  std::map<TaskId, Failures> recent_;  // of the last kWindow, before it is on
  std::set<std::uint32_t> users_;      // whose tasks failed while it was on or coming
  Time last_failure_{};
  Time next_trial_{};
  std::string why_;  // the last failure; empty: it is not on
};

}  // namespace carma::core

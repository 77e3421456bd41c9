// Decides whether a failed launch is the machine's fault or the task's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/values/ids.h"

namespace carma::core {

// Detects that the machine cannot start any task, for example because it is out of memory or
// descriptors. Until a start succeeds, only one task is tried every kTrialEvery, so that the others
// keep their retries.
class LaunchTrouble {
 public:
  // If this many different tasks fail within kWindow, the machine is at fault. Successful starts in
  // between prove nothing: even on a full machine, each task that ends makes room for another.
  static constexpr std::size_t kFailures = 3;
  static constexpr Duration kWindow{600'000};
  // Time between trials.
  static constexpr Duration kTrialEvery{10'000};

  // Records a failed launch that may be the machine's fault. certain: this failure alone proves it.
  // Returns the tasks whose failures the machine caused, including this one, each with the number
  // of retries to give back. Empty if the machine does not seem to be at fault.
  std::map<TaskId, int> Failed(Time now, const TaskRecord& task, const std::string& why,
                               bool certain = false);
  // Records that an attempt is running. launched: when its start was decided.
  void Works(Time launched);
  // Records the decision to start a trial.
  void Tried(Time now) { next_trial_ = now + kTrialEvery; }

  bool on() const { return !why_.empty(); }
  // Returns false while the machine is at fault and the last trial is too recent.
  bool MayTry(Time now) const { return !on() || now >= next_trial_; }
  // Time at which the next trial may start; empty unless the machine is at fault.
  std::optional<Time> NextTrial() const { return on() ? std::optional(next_trial_) : std::nullopt; }
  // True if a task of this user has failed. Tasks of other users make better trials, because the
  // user's own files may have caused the failure.
  bool FailedFor(std::uint32_t uid) const { return users_.contains(uid); }
  // Describes the trouble in one sentence; empty if there is none.
  std::string Text() const;

 private:
  struct Failures {
    int count = 0;
    Time last{};
  };
  std::map<TaskId, Failures> recent_;  // failures within kWindow, before trouble is declared
  std::set<std::uint32_t> users_;      // users with failed tasks since the trouble began
  Time last_failure_{};
  Time next_trial_{};
  std::string why_;  // text of the last failure; empty if no trouble
};

}  // namespace carma::core

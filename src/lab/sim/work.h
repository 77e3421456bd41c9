// The work of a simulated task: how much an attempt has done, and how much of that work survives
// the attempt's end. Private to sim.
#pragma once

#include <optional>

#include "base/time.h"

namespace carma::sim {

// Work is measured in seconds of solo run time on the reference GPU. An attempt does the work that
// earlier attempts have not saved. Its pace (work seconds per second) is constant between changes.
class Work {
 public:
  Work() = default;
  explicit Work(double solo_s) : solo_s_(solo_s) {}

  double solo_s() const { return solo_s_; }        // of the whole task
  double attempt_s() const { return attempt_s_; }  // of this attempt
  double pace() const { return pace_; }
  // True if the attempt will fail before its work is done, for a reason other than memory.
  bool Fails() const { return fails_after_s_ < attempt_s_; }
  double LeftS(base::Time now) const { return left_s_ - pace_ * base::Seconds(now - since_); }
  // True if this attempt has saved anything.
  bool HasSaved() const { return saved_s_ > solo_s_ - attempt_s_; }
  // Time lost to checkpoints and stops; empty if the task was never asked to checkpoint or stop.
  const std::optional<double>& lost_s() const { return lost_s_; }

  // Starts an attempt that fails after this much work for a reason other than memory. Infinity
  // means that it does not fail.
  void Launch(double fails_after_s);
  // Starts computing at `now`. The pace is 0 until SetPace is called.
  void Begin(base::Time now);
  // Advances the work to `now`, at the pace set by the last change.
  void Advance(base::Time now);
  void SetPace(base::Time now, double pace);
  // Returns the time at which the attempt will end at its current pace, but no earlier than `now`.
  // Empty if no pace has been set yet.
  std::optional<base::Time> EndsAt(base::Time now) const;
  // Writes a checkpoint, which takes `cost`. Returns true if it saves more work than before.
  bool Save(base::Time now, base::Duration cost);
  // Stops the attempt and counts the lost time: `load` for loading the task again and, if it
  // `computes`, the work since its last checkpoint.
  void Stop(base::Time now, base::Duration load, bool computes);

 private:
  double DoneS() const;  // by this attempt

  double solo_s_ = 0;
  double attempt_s_ = 0;
  double fails_after_s_ = 0;
  double pace_ = 0;
  base::Time since_{};
  double left_s_ = 0;   // at `since_`, including the pause
  double pause_s_ = 0;  // remaining checkpoint time, during which no work is done
  double saved_s_ = 0;  // saved part of the whole task's work
  std::optional<double> lost_s_;
};

}  // namespace carma::sim

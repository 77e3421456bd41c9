// Computes a task's progress.
#include "lab/sim/work.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace carma::sim {
namespace {

// Smaller increases in saved work are only rounding errors.
constexpr double kGainS = 1e-3;

base::Duration RoundUp(double seconds) {
  // Later than any timer needs to be. Can be added to any time of a run without overflow.
  constexpr double kLongestMs = 1e15;
  return base::Duration(static_cast<std::int64_t>(std::min(std::ceil(seconds * 1000), kLongestMs)));
}

}  // namespace

void Work::Launch(double fails_after_s) {
  attempt_s_ = solo_s_ - saved_s_;
  fails_after_s_ = fails_after_s;
}

void Work::Begin(base::Time now) {
  since_ = now;
  left_s_ = std::min(attempt_s_, fails_after_s_);
  pause_s_ = 0;
  pace_ = 0;
}

void Work::Advance(base::Time now) {
  const double done_s = pace_ * base::Seconds(now - since_);
  left_s_ -= done_s;
  pause_s_ = std::max(0.0, pause_s_ - done_s);
  since_ = now;
}

void Work::SetPace(base::Time now, double pace) {
  Advance(now);
  pace_ = pace;
}

std::optional<base::Time> Work::EndsAt(base::Time now) const {
  if (left_s_ <= 0) return std::max(since_, now);
  if (pace_ <= 0) return std::nullopt;
  return std::max(since_ + RoundUp(left_s_ / pace_), now);
}

double Work::DoneS() const {
  return std::min(attempt_s_, fails_after_s_) - (left_s_ - pause_s_);
}

bool Work::Save(base::Time now, base::Duration cost) {
  Advance(now);
  const double saved_s = solo_s_ - attempt_s_ + DoneS();
  const bool gains = saved_s > saved_s_ + kGainS;
  saved_s_ = std::max(saved_s_, saved_s);
  // Converts the cost from time to work at the current pace, so a checkpoint takes a slow task no
  // longer than a fast one.
  const double cost_s = base::Seconds(cost) * pace_;
  lost_s_ = lost_s_.value_or(0) + base::Seconds(cost);
  left_s_ += cost_s;
  pause_s_ += cost_s;
  return gains;
}

void Work::Stop(base::Time now, base::Duration load, bool computes) {
  double again_s = base::Seconds(load);
  if (computes) {
    Advance(now);
    again_s += std::max(0.0, DoneS() - (saved_s_ - (solo_s_ - attempt_s_)));
  }
  lost_s_ = lost_s_.value_or(0) + again_s;
}

}  // namespace carma::sim

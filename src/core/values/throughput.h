// Predicts a GPU's throughput and its tasks' slowdowns if one more task joins. Pure.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "core/values/interference.h"

namespace carma::core {

inline constexpr double kAnySlowdown = std::numeric_limits<double>::infinity();

// A task on a GPU, or a candidate for the GPU. If the tasks take turns, AsTurns must have been
// applied to the load.
struct Neighbour {
  Load load;
  double max_slowdown = kAnySlowdown;  // relative to running alone
  // Safety factor by which the predicted delay (the time beyond the solo run time) is multiplied. 1
  // if s and p were measured.
  double doubt = 1;
  // Run time without neighbours, relative to the run time on a whole GPU. Above 1 on a MIG instance
  // that has fewer SMs than the task would use.
  double cramped = 1;
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// The prediction for all tasks of one GPU together.
struct ThroughputEstimate {
  double delivered = 0;  // sum of activity times speed; 1 is one full GPU
  double newcomer = 1;   // slowdown of the added task
  double slowest = 1;    // highest slowdown of any task
  double doubt = 1;      // the largest Neighbour::doubt
  bool bearable = true;  // no task exceeds its slowdown limit, even with `doubt` applied
};

// Highest total throughput of one GPU under that sharing method.
double SaturationOf(const Interference& model, SharingMethod sharing);

// Writes each task's slowdown relative to running alone to `slowdowns`, in the same order.
void SlowdownsOf(std::span<const Neighbour> tasks, double saturation,
                 std::vector<double>& slowdowns);

// Uses the same formula as Speeds. newcomer: the task that would join, or null; if null, the
// result's `newcomer` is 1.
ThroughputEstimate ThroughputOf(std::span<const Neighbour> residents, const Neighbour* newcomer,
                                double saturation);

// Caches ThroughputOf for one GPU, because guards and mappers check one candidate after another and
// most candidates are equal. Code that changes the residents in place must call Forget.
class KeptThroughput {
 public:
  const ThroughputEstimate& With(std::span<const Neighbour> residents, const Neighbour& newcomer,
                                 double saturation) {
    if (asked_ != newcomer || residents.data() != residents_.data() ||
        residents.size() != residents_.size()) {
      asked_ = newcomer;
      residents_ = residents;
      outlook_ = ThroughputOf(residents, &newcomer, saturation);
    }
    return outlook_;
  }
  void Forget() { asked_.reset(); }

 private:
  std::optional<Neighbour> asked_;
  std::span<const Neighbour> residents_;
  ThroughputEstimate outlook_;
};

}  // namespace carma::core

// What a GPU would get done, and how much its tasks would be slowed down, with a newcomer. Pure.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "core/values/interference.h"

namespace carma::core {

inline constexpr double kAnySlowdown = std::numeric_limits<double>::infinity();

// A task that is on a GPU, or may come there. Where tasks take turns its load is AsTurns.
struct Neighbour {
  Load load;
  double max_slowdown = kAnySlowdown;  // times the run time alone, that it may take
  // What is predicted beyond the run time alone may come to so many times as much: 1 where s and p
  // were measured.
  double doubt = 1;
  // How many times as long as on a whole GPU it takes where nobody else is: more than 1 on a part
  // of a GPU that has fewer SMs than it would use.
  double cramped = 1;
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// Of all tasks of one GPU together.
struct ThroughputEstimate {
  double delivered = 0;  // sum of activity times speed, in SM activity of one GPU
  double newcomer = 1;   // how many times as long as alone the last one takes
  double slowest = 1;    // and the one that is slowed down most
  double doubt = 1;      // the largest Neighbour::doubt
  bool bearable = true;  // no task takes longer than it may, doubt included
};

// Most that tasks get done together on one GPU, by the way they share it.
double SaturationOf(const Interference& model, SharingMethod sharing);

// How many times as long as alone each of these takes, in their order, written to `slowdowns`.
void SlowdownsOf(std::span<const Neighbour> tasks, double saturation,
                 std::vector<double>& slowdowns);

// Without a newcomer (null) `newcomer` stays 1. By the same formula as Speeds.
ThroughputEstimate ThroughputOf(std::span<const Neighbour> residents, const Neighbour* newcomer,
                                double saturation);

// The same of one GPU, kept for the next who asks: guard and mapper ask for one newcomer after the
// other, and most newcomers are alike. Whoever changes residents where they are makes it forget.
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

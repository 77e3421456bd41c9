// About when waiting tasks start: the server played forward by what is predicted of its tasks.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/forecast/preemption_plan.h"

namespace carma::core {

// A task as it will go on, or run once it has started.
struct LikelyRun {
  TaskId task{};
  std::optional<double> left_s;  // of its work, as it takes alone; empty: nobody knows
  std::optional<double> most_s;  // by then it leaves whatever is left
};
struct LikelyStart {
  Need need;
  LikelyRun run;
  bool stops = true;  // it stands in the main queue, where those that do not fit stop others
};
struct LikelyLine {
  std::vector<LikelyStart> tasks;  // the first one first
  // The first that stops others has been it since so long, and was passed or not.
  double first_for_s = 0;
  bool passed = false;
};

// Of each task of the line, in its order, in how many seconds it starts; empty: it cannot be said.
// The line is gone through at every end, its first one first, by the rules about how many are
// looked at behind those that do not fit, and about GPUs for who has been passed for long. Nobody
// comes, nor does anybody come back, and neither reservations nor drains begin or end. Only until
// the first `most` have started.
std::vector<std::optional<double>> LikelyStarts(const PolicyConfig& config, PreemptionPlan room,
                                                std::span<const LikelyRun> running,
                                                const LikelyLine& line, std::size_t most);

}  // namespace carma::core

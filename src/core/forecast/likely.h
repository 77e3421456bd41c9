// Likely starts of waiting tasks: simulates the server with predicted run times. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/forecast/preemption_plan.h"

namespace carma::core {

// A task that runs, or will run once it has started.
struct LikelyRun {
  TaskId task{};
  std::optional<double> left_s;  // of its run time alone; empty: unknown
  std::optional<double> most_s;  // leaves then in any case
};
struct LikelyStart {
  Need need;
  LikelyRun run;
  bool stops = true;  // in the main queue, where it blocks others until it fits
};
struct LikelyLine {
  std::vector<LikelyStart> tasks;  // in queue order
  // How long the blocking head has been the head, and whether others have passed it.
  double first_for_s = 0;
  bool passed = false;
};

// In how many seconds each task starts, in queue order; empty: unknown. Whenever a task ends, the
// queue is served from its head, following the rules for backfill and for keeping GPUs for a head
// that was passed for long. Assumes no new or returning tasks and no change of reservations or
// drains. Stops once the first `most` have started.
std::vector<std::optional<double>> LikelyStarts(const PolicyConfig& config, PreemptionPlan room,
                                                std::span<const LikelyRun> running,
                                                const LikelyLine& line, std::size_t most);

}  // namespace carma::core

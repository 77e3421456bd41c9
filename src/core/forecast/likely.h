// Predicts when waiting tasks start by simulating the server with predicted run times. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/forecast/preemption_plan.h"

namespace carma::core {

// A task that is running now or starts during the simulation.
struct LikelyRun {
  TaskId task{};
  std::optional<double> left_s;  // remaining solo run time; empty if unknown
  std::optional<double> most_s;  // it ends within this time
};
// A waiting task.
struct LikelyStart {
  Need need;
  LikelyRun run;
  bool stops = true;  // it is in the main queue, where it blocks the tasks behind it until it fits
};
struct LikelyLine {
  std::vector<LikelyStart> tasks;  // in queue order
  // How long the head of the main queue has been the head, and whether other tasks have overtaken
  // it.
  double first_for_s = 0;
  bool passed = false;
};

// Seconds until each task starts, in queue order. An entry is empty if the start is unknown.
//
// The simulation serves the queue whenever a task ends, under the backfill rules, and keeps GPUs
// for a head that has been overtaken for too long. It assumes that no task is submitted or requeued
// and that reservations and drains do not change. It stops once the first `most` tasks have
// started.
std::vector<std::optional<double>> LikelyStarts(const PolicyConfig& config, PreemptionPlan room,
                                                std::span<const LikelyRun> running,
                                                const LikelyLine& line, std::size_t most);

}  // namespace carma::core

// Predicts what would happen to a request if it were submitted now, for `carma submit --check`.
// Does not submit or change anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::core {

struct Trial {
  Fit fit = Fit::kFits;
  Reason reason;  // why it could not start now, or could never start
};

// Checks the limits, and runs the guards for the machine and for every GPU. Returns kNotNow if the
// new task would be too far back in the queue to be considered (AheadOf, PolicyConfig::backfill).
// Every task that `request` depends on must exist; known_final must be set for those that have
// ended.
Trial Try(const Scheduler& scheduler, const TaskRequest& request,
          const std::optional<Estimate>& estimate, Time now);

// Puts a warning before the remarks if the prediction is larger than every GPU that the task may
// use. Such a task is accepted, because the prediction may be wrong, and is promised all memory of
// the largest GPU.
void NoteTooLarge(const Scheduler& scheduler, const TaskRequest& request,
                  const std::optional<Estimate>& estimate, std::vector<std::string>& remarks);

}  // namespace carma::core

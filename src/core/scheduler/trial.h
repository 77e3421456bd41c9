// Predicts what would happen to a request if it were submitted now, for `carma submit --check`.
// Does not submit or change anything.
#pragma once

#include <optional>

#include "core/scheduler/scheduler.h"

namespace carma::core {

struct Trial {
  Fit fit = Fit::kFits;
  Reason reason;  // why it could not start now, or never
};

// Runs the guards for the machine and for every GPU. The result is kNotNow if at least as many
// tasks are ahead of the new task (AheadOf) as are considered (backfill). Every task that `request`
// depends on must exist, and known_final must be set for those that have ended.
Trial Try(const Scheduler& scheduler, const TaskRequest& request,
          const std::optional<Estimate>& estimate, Time now);

}  // namespace carma::core

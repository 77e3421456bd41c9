// What would happen to a request if it came now? For `carma submit --check`; changes nothing.
#pragma once

#include <optional>

#include "core/scheduler/scheduler.h"

namespace carma::core {

struct Trial {
  Fit fit = Fit::kFits;
  Reason reason;  // why not now, or why never
};

// Every task that `request` depends on must exist, and known_final must be set for those that have
// ended. Asks the guards of the machine and of every GPU; if more tasks are ahead of a new one
// (AheadOf) than are considered (backfill), the answer is "not now".
Trial Try(const Scheduler& scheduler, const TaskRequest& request,
          const std::optional<Estimate>& estimate, Time now);

}  // namespace carma::core

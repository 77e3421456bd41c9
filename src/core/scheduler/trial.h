// What would happen to a request if it came now? For `carma submit --check`; changes nothing.
#pragma once

#include <optional>

#include "core/scheduler/scheduler.h"

namespace carma::core {

struct Trial {
  Fit fit = Fit::kFits;
  Reason reason;  // why not now, or why never
};

// Guards of the machine and of every GPU as they stand; tasks that stand in line before a newcomer
// (AheadOf) mean "not now".
Trial Try(const Scheduler& scheduler, const TaskRequest& request,
          const std::optional<Estimate>& estimate, Time now);

}  // namespace carma::core

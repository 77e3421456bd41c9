// The rules of the published system, which CARMA can use for comparison. The section "As published"
// of docs/server/policies.md lists them.
#pragma once

#include <string_view>

#include "core/policy/policy.h"

namespace carma::core {

// Returns the rules of the original system: "thesis" (August 2025) or "v2" (November 2025). Returns
// kInvalid for any other name. `base` provides what the original leaves to the user: the mapper,
// the SM cap, floor and margin (if the policy has them), and whether estimates are used. `base`
// also provides the settings for which the original has no rule: stale_after, without_activity,
// max_launch_failures, max_node_failures, max_victim_restarts, MIG instances, and idle holders. The
// core's caller sets the length of the averaging window (92 s for thesis, 30 s for v2).
Result<PolicyConfig> AsPublished(std::string_view era, PolicyConfig base);

}  // namespace carma::core

// The rules of the published system, for comparison with it. They are written out in
// docs/server/policies.md, "As published".
#pragma once

#include <string_view>

#include "core/policy/policy.h"

namespace carma::core {

// Strict rules of the original: "thesis" (August 2025) and "v2" (November 2025). base keeps what
// the original leaves to the user: the mapper, the SM cap, the floor or the margin of a policy that
// has one, whether estimates are used, and what it has no rule for (stale_after, without_activity,
// max_launch_failures, max_node_failures, max_victim_restarts, MIG instances, idle holders).
// The length of the window is the shell's (set 92 s for thesis, 30 s for v2).
// Errors: kInvalid for another name.
Result<PolicyConfig> AsPublished(std::string_view era, PolicyConfig base);

}  // namespace carma::core

// The rules of the published system, for comparison with it. docs/server/policies.md, "As
// published", lists them.
#pragma once

#include <string_view>

#include "core/policy/policy.h"

namespace carma::core {

// The strict rules of the original: "thesis" (August 2025) or "v2" (November 2025). Values of
// `base` remain for what the original leaves to the user (the mapper, the SM cap, the floor or the
// margin of a policy that has one, whether estimates are used), and for what it has no rule for
// (stale_after, without_activity, max_launch_failures, max_node_failures, max_victim_restarts, MIG
// instances, idle holders). The shell sets the length of the window (92 s for thesis, 30 s for v2).
// Errors: kInvalid for any other name.
Result<PolicyConfig> AsPublished(std::string_view era, PolicyConfig base);

}  // namespace carma::core

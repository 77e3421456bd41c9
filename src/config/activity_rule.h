// Describes the rule for sharing a GPU that does not report SM activity.
#pragma once

#include <string>

#include "core/policy/policy.h"

namespace carma::config {

// Returns a sentence that does not begin with a capital letter or end with a full stop. Returns an
// empty string if the policy never shares GPUs.
std::string RuleWithoutActivity(const core::PolicyConfig& policy);

}  // namespace carma::config

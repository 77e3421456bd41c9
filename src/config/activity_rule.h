// Describes the rule for sharing a GPU that does not report SM activity.
#pragma once

#include <string>

#include "core/policy/policy.h"

namespace carma::config {

// Returns a sentence without capital letter and full stop. Empty if the policy never shares GPUs.
std::string RuleWithoutActivity(const core::PolicyConfig& policy);

}  // namespace carma::config

// Describes the rule for sharing a GPU that does not report SM activity.
#pragma once

#include <string>

#include "core/policy/policy.h"

namespace carma::config {

// Returns the rule as a sentence without a capital letter or full stop, to be inserted into other
// text. Empty if the policy never shares GPUs. mig: the GPU is a MIG instance.
std::string RuleWithoutActivity(const core::PolicyConfig& policy, bool mig);

}  // namespace carma::config

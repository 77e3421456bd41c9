// The rule for sharing a GPU whose SM activity is not measured, as text for people.
#pragma once

#include <string>

#include "core/policy/policy.h"

namespace carma::config {

// A sentence without capital letter and full stop; empty: the policy never shares GPUs.
std::string RuleWithoutActivity(const core::PolicyConfig& policy);

}  // namespace carma::config

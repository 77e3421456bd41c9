// By which rule tasks share a GPU whose SM activity nobody counts, in words for people.
#pragma once

#include <string>

#include "core/policy/policy.h"

namespace carma::config {

// A sentence without its first capital and full stop; empty: the policy never shares a GPU.
std::string RuleWithoutActivity(const core::PolicyConfig& policy);

}  // namespace carma::config

#include "config/activity_rule.h"

namespace carma::config {

std::string RuleWithoutActivity(const core::PolicyConfig& policy) {
  if (policy.mapper == "exclusive") return "";
  if (!policy.sm_cap) return "tasks share it by memory alone (policy.sm_cap = false)";
  return "NVML's coarse utilisation cannot stand in for SM activity, so no task joins another here "
         "(policy.sm_cap)";
}

}  // namespace carma::config

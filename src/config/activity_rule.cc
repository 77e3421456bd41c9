#include "config/activity_rule.h"

#include <fmt/format.h>

namespace carma::config {

std::string RuleWithoutActivity(const core::PolicyConfig& policy) {
  if (!core::Shares(policy)) return "";
  if (!policy.sm_cap) return "tasks share this GPU based on memory alone (policy.sm_cap = false)";
  switch (policy.without_activity) {
    case core::WithoutActivity::kUtilization:
      return fmt::format(
          "tasks may share this GPU while kernels run at most {:.0f} % of the time (an upper bound "
          "on SM activity; policy.without_sm_activity = \"utilization\")",
          *policy.sm_cap * 100);
    case core::WithoutActivity::kMemory:
      return "tasks share this GPU based on memory alone (policy.without_sm_activity = \"memory\")";
    case core::WithoutActivity::kNever:
      break;
  }
  return "tasks never share this GPU (policy.without_sm_activity = \"never\")";
}

}  // namespace carma::config

#include "config/activity_rule.h"

#include <fmt/format.h>

namespace carma::config {

std::string RuleWithoutActivity(const core::PolicyConfig& policy, bool mig) {
  if (!core::Shares(policy)) return "";
  const std::optional<double>& cap = core::SmCapOn(policy, mig);
  if (!cap)
    return fmt::format("tasks share this GPU based on memory alone ({} = false)",
                       mig ? "collocation.streams_sm_cap" : "policy.sm_cap");
  switch (policy.without_activity) {
    case core::WithoutActivity::kUtilization:
      return fmt::format(
          "tasks may share this GPU while kernels run at most {:.0f} % of the time (an upper bound "
          "on SM activity; policy.without_sm_activity = \"utilization\")",
          *cap * 100);
    case core::WithoutActivity::kMemory:
      return "tasks share this GPU based on memory alone (policy.without_sm_activity = \"memory\")";
    case core::WithoutActivity::kNever:
      break;
  }
  return "tasks never share this GPU (policy.without_sm_activity = \"never\")";
}

}  // namespace carma::config

#include "lab/simgpu/milestones.h"

#include <algorithm>

namespace carma::simgpu {

std::vector<Milestone> PlanMilestones(const TrainingOptions& options) {
  std::vector<Milestone> plan;
  const int epochs = options.solo_s > 0 ? options.epochs : 0;
  for (int epoch = 1; epoch <= epochs; ++epoch)
    plan.push_back({static_cast<double>(epoch) / epochs, Milestone::kEpoch, epoch});
  if (options.grow_at) plan.push_back({*options.grow_at, Milestone::kGrow});
  if (options.fail_at) plan.push_back({*options.fail_at, Milestone::kFail});
  if (options.kill_self_at) plan.push_back({*options.kill_self_at, Milestone::kKillSelf});
  if (options.hang_at) plan.push_back({*options.hang_at, Milestone::kHang});
  if (options.fault_at) plan.push_back({*options.fault_at, Milestone::kFault});
  plan.push_back({1, Milestone::kEnd});
  std::ranges::stable_sort(plan,
                           [](const Milestone& a, const Milestone& b) { return a.at < b.at; });
  return plan;
}

}  // namespace carma::simgpu

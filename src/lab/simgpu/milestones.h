// The events of a simulated training: epochs, growth, failures and the end.
#pragma once

#include <vector>

#include "lab/simgpu/training.h"

namespace carma::simgpu {

struct Milestone {
  enum Event { kEpoch, kGrow, kFail, kKillSelf, kHang, kFault, kEnd };
  double at;  // share of the work
  Event event;
  int epoch = 0;
};

// The milestones in order; the last one is the end.
std::vector<Milestone> PlanMilestones(const TrainingOptions& options);

}  // namespace carma::simgpu

#include "core/scheduler/rules.h"

#include "core/scheduler/placement.h"
#include "core/scheduler/recovery.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {

void Rules::Decide() {
  UpdateReservation(core_);
  StartWhatFits(core_);
}

Need Rules::OnIdleGpu(Need need) const {
  need.idle_gpu = true;
  return need;
}

Reason Rules::WhyNotYet(const TaskRecord&, Time) const {
  return {ReasonCode::kResources, "GPUs have just become free for it."};
}

}  // namespace carma::core

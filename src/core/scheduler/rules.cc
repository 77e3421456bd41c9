#include "core/scheduler/rules.h"

#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/recovery.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {

void Rules::Decide() {
  // In fair order, another task may have become the head since the last pass. If GPUs must be kept
  // because the head has waited too long, they must be kept for the current head.
  PassLine line(core_);
  if (core_.heads.passed.task && core_.config.order == QueueOrder::kFair &&
      core_.heads.noted != OrderChanges(core_))
    NoteHead(core_, line);
  UpdateReservation(core_);
  StartWhatFits(core_, line);
}

Need Rules::OnIdleGpu(Need need) const {
  need.idle_gpu = true;
  return need;
}

Reason Rules::WhyNotYet(const TaskRecord&, Time) const {
  return {ReasonCode::kResources, "GPUs for it have just become free."};
}

}  // namespace carma::core

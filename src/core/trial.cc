#include "core/trial.h"

#include <algorithm>
#include <string>

namespace carma::core {

Trial Try(const Scheduler& scheduler, const TaskRequest& request,
          const std::optional<Estimate>& estimate, Time now) {
  if (std::optional<Reason> never = scheduler.NeverFits(request, estimate))
    return {Fit::kNever, std::move(*never)};
  if (request.held) return {Fit::kNotNow, {ReasonCode::kHeld, "submitted on hold"}};
  if (request.begin && *request.begin > now)
    return {Fit::kNotNow, {ReasonCode::kBeginTime, "not before its begin time"}};
  const auto waiting =
      std::count_if(scheduler.Tasks().begin(), scheduler.Tasks().end(), [](const auto& entry) {
        return entry.second.state == TaskState::kQueued && !entry.second.held;
      });
  if (waiting > 0) {
    return {Fit::kNotNow,
            {ReasonCode::kPriority, std::to_string(waiting) + " tasks wait before it"}};
  }
  Need need;
  if (estimate && scheduler.config().use_given_memory) need.memory_mib = estimate->peak_mib;
  need.exclusive = request.exclusive;
  need.gpus = request.gpus;
  need.sm_share = request.sm_share;
  need.idle_gpu = request.exclusive || scheduler.config().mapper == "exclusive";
  int fitting = 0;
  Trial trial{Fit::kNotNow, {ReasonCode::kResources, "too few GPUs are open to it now"}};
  for (const GpuView& gpu : scheduler.Gpus(now)) {
    const Verdict verdict = CheckGuards(scheduler.config(), need, gpu);
    if (verdict.fit == Fit::kFits) {
      ++fitting;
    } else {
      trial.reason = verdict.reason;
    }
  }
  return fitting >= request.gpus ? Trial{} : trial;
}

}  // namespace carma::core

#include "cli/pilot/surroundings.h"

#include <sched.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "cli/client/gpu_text.h"
#include "core/values/reason.h"

namespace carma::cli {

base::Time SystemTime() {
  return base::SystemClock().Now();
}

int OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::int64_t UnfinishedTasks(const api::StatusView& status) {
  return RunningTasks(status) + CountOf(status, {"submitted", "estimating", "queued"});
}

bool WaitsInVain(const api::TaskView& task) {
  constexpr std::array kInVain = {core::ReasonCode::kHeld,       core::ReasonCode::kNeverFits,
                                  core::ReasonCode::kDependency, core::ReasonCode::kGpuChoice,
                                  core::ReasonCode::kReserved,   core::ReasonCode::kMigInstance};
  return std::ranges::any_of(
      kInVain, [&](core::ReasonCode code) { return task.reason == base::WordOf(code); });
}

}  // namespace carma::cli

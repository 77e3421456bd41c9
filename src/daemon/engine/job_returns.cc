#include "daemon/engine/job_returns.h"

#include <algorithm>
#include <vector>

#include "core/values/gpu_choice.h"
#include "core/values/task.h"
#include "task/verdict/oom_detect.h"

namespace carma::daemon {

namespace {

// True if the task was stopped or reported a saved checkpoint because it had to leave its GPUs: for
// a drain, a shutdown, a preemption or the end of its time slice.
bool HadToLeave(const core::TaskRecord& record, const core::SlotRules& slots) {
  using core::ReasonCode;
  const ReasonCode why = record.reason.code;
  if (record.state == core::TaskState::kCancelled)
    return why == ReasonCode::kDraining || why == ReasonCode::kPreempted ||
           why == ReasonCode::kTimeSlot;
  if (!record.attempt->slot_notice) return false;
  if (record.state == core::TaskState::kLost) return why == ReasonCode::kNodeFail;
  return record.state == core::TaskState::kFailed &&
         core::SaysItSaved(slots, record.request, record.exit);
}

}  // namespace

bool MayComeBack(const core::TaskRecord& record, const core::SlotRules& slots) {
  if (core::HoldsGpus(record.state) || record.request->gpus == 0) return false;
  if (HadToLeave(record, slots)) return true;
  if (record.attempt->stopping != core::StopCause::kNone) return false;
  const core::ExitKind kind = record.exit->kind;
  return kind == core::ExitKind::kOutOfMemory || kind == core::ExitKind::kVictim ||
         kind == core::ExitKind::kDeviceFault;
}

Result<slurm::JobReturn> PlanReturn(const core::TaskRecord& record, const JobOfTask& of,
                                    std::span<const core::GpuInfo> gpus, std::int64_t step_mib,
                                    const core::SlotRules& slots) {
  const core::GpuChoice choice(record.request, gpus);
  std::vector<std::int64_t> usable_mib;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    if (choice.Allows(core::GpuIndex{i})) usable_mib.push_back(gpus[i].UsableMib());
  }
  std::ranges::sort(usable_mib, std::ranges::greater());
  const auto wanted = static_cast<std::size_t>(std::max(1, record.request->gpus));
  std::int64_t had_mib = record.peak_mib;
  for (const core::Placement& at : record.attempt->placement)
    had_mib = std::max(had_mib, at.claim_mib);
  const std::int64_t tried_mib = task::TriedToAllocateMib(record.exit->detail);
  return slurm::ReturnOf({.out_of_memory = record.exit->kind == core::ExitKind::kOutOfMemory,
                          .left = HadToLeave(record, slots),
                          .most_retries = of.retries,
                          .gpus = record.request->gpus,
                          .had_mib = had_mib,
                          .wanted_mib = had_mib + std::max(step_mib, tried_mib),
                          .most_mib = usable_mib.size() < wanted ? 0 : usable_mib[wanted - 1],
                          .job = of.job});
}

}  // namespace carma::daemon

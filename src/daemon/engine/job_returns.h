// Decides whether and how a finished task's Slurm job is requeued. Pure.
#pragma once

#include <span>

#include "base/result.h"
#include "core/policy/slots.h"
#include "core/values/gpu.h"
#include "core/values/ids.h"
#include "slurm/job_return.h"

namespace carma::daemon {

struct JobOfTask {
  std::uint64_t job = 0;
  int retries = 3;  // retries after running out of memory
};

// True if another run might succeed: the last attempt ran out of memory, was hit by a neighbour's
// fault or a device fault, or had to leave its GPUs.
bool MayComeBack(const core::TaskRecord& record, const core::SlotRules& slots);
// step_mib: the setting recovery.step. Returns kConflict with the reason if the job is not
// requeued.
Result<slurm::JobReturn> PlanReturn(const core::TaskRecord& record, const JobOfTask& of,
                                    std::span<const core::GpuInfo> gpus, std::int64_t step_mib,
                                    const core::SlotRules& slots);

}  // namespace carma::daemon

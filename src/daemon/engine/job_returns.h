// Whether and how a job of Slurm's comes back whose task has ended here. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "core/policy/slots.h"
#include "core/values/gpu.h"
#include "core/values/task.h"
#include "slurm/job_return.h"

namespace carma::daemon {

struct JobOfTask {
  std::uint64_t job = 0;
  int retries = 3;  // after running out of memory
};

struct ReturnRules {
  std::int64_t step_mib = 0;  // recovery.step
  std::string node;
};

// Its last attempt ended by something that another start may help against, or had to make room.
bool MayComeBack(const core::TaskRecord& record, const core::SlotRules& slots);
// Errors: kConflict: it does not come back, and why not.
base::Result<slurm::JobReturn> PlanReturn(const core::TaskRecord& record, const JobOfTask& of,
                                          std::span<const core::GpuInfo> gpus,
                                          const ReturnRules& rules, const core::SlotRules& slots);

}  // namespace carma::daemon

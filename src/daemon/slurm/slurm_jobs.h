// Slurm's jobs as known from the store and the leases.
#pragma once

#include <vector>

#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "slurm/waits.h"
#include "store/store.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

// Whether and how the job of this task is requeued (MayComeBack()). retries: the job's default.
JobReturnPlan ReturnOfJob(const core::TaskRecord& record, store::Store& store,
                          const core::Scheduler& scheduler, int retries);
// Jobs whose steps wait here for GPUs, and why.
std::vector<slurm::WaitingJob> JobsThatWait(const task::LeaseLauncher& leases,
                                            const core::Scheduler& scheduler, core::Time now);

}  // namespace carma::daemon

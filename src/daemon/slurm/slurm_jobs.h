// What the books and the leases know of Slurm's jobs.
#pragma once

#include <vector>

#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "slurm/waits.h"
#include "store/store.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

// What follows for the job whose task this is (MayComeBack()). retries: where it does not say.
JobReturnPlan ReturnOfJob(const core::TaskRecord& record, store::Store& store,
                          const core::Scheduler& scheduler, int retries);
// Those whose steps wait here for GPUs, and why.
std::vector<slurm::WaitingJob> JobsThatWait(const task::LeaseLauncher& leases,
                                            const core::Scheduler& scheduler, core::Time now);

}  // namespace carma::daemon

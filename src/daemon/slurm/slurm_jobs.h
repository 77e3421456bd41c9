// Looks up Slurm jobs and their states in the store and the leases.
#pragma once

#include <functional>
#include <vector>

#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "daemon/slurm/leaving_jobs.h"
#include "slurm/waits.h"
#include "store/store.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

// Decides whether and how this task's Slurm job is requeued (see MayComeBack()). retries: the
// default number of retries for a job.
JobReturnPlan ReturnOfJob(const core::TaskRecord& record, store::Store& store,
                          const core::Scheduler& scheduler, int retries);
// The jobs with steps waiting here for GPUs, and the reason for each.
std::vector<slurm::WaitingJob> JobsThatWait(const task::LeaseLauncher& leases,
                                            const core::Scheduler& scheduler, core::Time now);
// The waiting jobs that could run on another node instead: batch scripts that are waiting for room
// on a GPU. is_soon: returns true if a job that is expected to start here at this time should stay.
std::vector<LeavingJob> JobsThatMayLeave(const task::LeaseLauncher& leases,
                                         const core::Scheduler& scheduler, core::Time now,
                                         const std::function<bool(core::Time)>& is_soon);

}  // namespace carma::daemon

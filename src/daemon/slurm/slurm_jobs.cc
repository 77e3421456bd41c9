#include "daemon/slurm/slurm_jobs.h"

#include <fmt/format.h>

#include <optional>

#include "core/values/reason_line.h"
#include "daemon/engine/job_returns.h"
#include "daemon/slurm/returning_jobs.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {

JobReturnPlan ReturnOfJob(const core::TaskRecord& record, store::Store& store,
                          const core::Scheduler& scheduler, int retries) {
  const base::Result<store::StoredTask> stored = store.Get(record.id);
  const base::Result<task::TaskSpec> spec =
      stored ? task::SpecFromJsonText(stored->spec_json) : std::unexpected(stored.error());
  const auto key = spec ? task::ParseLeaseKey(spec->lease_key.value_or("")) : std::nullopt;
  if (!key) return {};
  const base::Result<slurm::JobReturn> back =
      PlanReturn(record, {key->job, spec->lease_retries.value_or(retries)}, scheduler.GpuInfos(),
                 scheduler.config().recovery_step_mib, scheduler.config().slots);
  if (!back) {
    return {std::nullopt,
            fmt::format("job {} is not started again: {}", key->job, back.error().message)};
  }
  return {RowOf(record.id, *back), ""};
}

std::vector<slurm::WaitingJob> JobsThatWait(const task::LeaseLauncher& leases,
                                            const core::Scheduler& scheduler, core::Time now) {
  std::vector<slurm::WaitingJob> jobs;
  for (const core::TaskId id : leases.Leases()) {
    const std::optional<task::LeaseKey> key = leases.KeyOf(id);
    const core::TaskRecord* record = scheduler.Find(id);
    if (!key || record == nullptr || record->state != core::TaskState::kQueued) continue;
    jobs.push_back({key->job, core::ReasonLine(scheduler.ReasonFor(id, now))});
  }
  return jobs;
}

}  // namespace carma::daemon

#include "daemon/slurm/slurm_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "core/values/reason_line.h"
#include "daemon/engine/job_returns.h"
#include "daemon/slurm/returning_jobs.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

constexpr std::string_view kScript = "batch";  // name of the step that runs a job's script
// Reasons for waiting that would apply on every node or that resolve themselves.
constexpr std::array kNotOfTheNode{core::ReasonCode::kHeld,
                                   core::ReasonCode::kBeginTime,
                                   core::ReasonCode::kDependency,
                                   core::ReasonCode::kArrayLimit,
                                   core::ReasonCode::kBackoff,
                                   core::ReasonCode::kPacing,
                                   core::ReasonCode::kEstimating,
                                   core::ReasonCode::kLimit,
                                   core::ReasonCode::kDependencyNeverMet};

}  // namespace

JobReturnPlan ReturnOfJob(const core::TaskRecord& record, store::Store& store,
                          const core::Scheduler& scheduler, int retries) {
  const Result<store::StoredTask> stored = store.Get(record.id);
  const Result<task::TaskSpec> spec =
      stored ? task::SpecFromJsonText(stored->spec_json) : std::unexpected(stored.error());
  const auto key = spec ? task::ParseLeaseKey(spec->lease_key.value_or("")) : std::nullopt;
  if (!key) return {};
  const Result<slurm::JobReturn> back =
      PlanReturn(record, {key->job, spec->lease_retries.value_or(retries)}, scheduler.GpuInfos(),
                 scheduler.config().recovery_step_mib, scheduler.config().slots);
  if (!back) {
    return {std::nullopt,
            fmt::format("job {} is not requeued: {}", key->job, back.error().message)};
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

std::vector<LeavingJob> JobsThatMayLeave(const task::LeaseLauncher& leases,
                                         const core::Scheduler& scheduler, core::Time now,
                                         const std::function<bool(core::Time)>& is_soon) {
  std::vector<LeavingJob> jobs;
  for (const core::TaskId id : leases.Leases()) {
    const std::optional<task::LeaseKey> key = leases.KeyOf(id);
    const core::TaskRecord* record = scheduler.Find(id);
    if (!key || key->step != kScript || record == nullptr) continue;
    if (record->state != core::TaskState::kQueued || record->request->gpus == 0) continue;
    const core::ReasonCode why = scheduler.ReasonFor(id, now).code;
    if (std::ranges::find(kNotOfTheNode, why) != kNotOfTheNode.end()) continue;
    jobs.push_back({id, key->job, false});
  }
  if (jobs.empty()) return jobs;
  const std::map<core::TaskId, core::ExpectedStart> starts = scheduler.ExpectedStarts(now);
  for (LeavingJob& each : jobs) {
    const auto start = starts.find(each.task);
    if (start == starts.end()) continue;
    const auto& [latest, likely] = start->second;
    each.soon = (latest && is_soon(*latest)) || (likely && is_soon(*likely));
  }
  return jobs;
}

}  // namespace carma::daemon

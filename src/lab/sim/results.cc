// Computes the sums, means and record of a run.
#include "lab/sim/results.h"

#include <algorithm>
#include <utility>

namespace carma::sim {
namespace {

report::AttemptEnd EndOf(const Job& job, core::ExitKind kind) {
  if (job.phase == Phase::kStopping) return report::AttemptEnd::kStopped;
  if (kind == core::ExitKind::kSuccess) return report::AttemptEnd::kSucceeded;
  return kind == core::ExitKind::kOutOfMemory ? report::AttemptEnd::kOutOfMemory
                                              : report::AttemptEnd::kFailed;
}

}  // namespace

Results::Results(const Cluster& cluster, const RunOptions& options, const Layout& layout,
                 base::Time from)
    : options_(options), layout_(layout), from_(from), last_end_(from) {
  if (options.record) recorder_.emplace(cluster, options.points_per_gpu, from);
}

void Results::Launched(Job& job) {
  ++job.attempts;
  ++totals_.attempts;
}

void Results::AttemptEnded(Job& job, core::ExitKind kind, base::Time now) {
  const JobAttempt& attempt = job.attempt;
  if (job.phase == Phase::kStopping) ++starts_in_vain_;
  if (kind == core::ExitKind::kSuccess) ++totals_.succeeded;
  if (!options_.record && !options_.on_task) return;
  report::Attempt past{.started = attempt.launched, .ended = now};
  past.end = EndOf(job, kind);
  for (const std::uint32_t gpu : attempt.gpus)
    past.gpus.push_back(static_cast<int>(layout_.CardOf(gpu)));
  std::ranges::sort(past.gpus);
  past.gpus.erase(std::unique(past.gpus.begin(), past.gpus.end()), past.gpus.end());
  if (attempt.promised_mib > 0) past.promised_mib = static_cast<double>(attempt.promised_mib);
  job.history.push_back(std::move(past));
}

report::RunTask Results::Described(Job& job, core::TaskState state, base::Time now) const {
  const trace::Workload& workload = job.workload();
  report::RunTask task{.id = core::Number(job.id),
                       .name = workload.id,
                       .group = workload.weight_class,
                       .user = job.arrival->user,
                       .gpus = workload.gpus,
                       .submitted = job.submitted,
                       .ended = now,
                       .state = state,
                       .lost_s = job.work.lost_s(),
                       .attempts = std::move(job.history)};
  if (job.attempts == 0) return task;
  const double load_s = base::Seconds(options_.memory.load);
  const double attempt_s = job.work.attempt_s();
  const double solo_s = job.work.solo_s();
  task.solo_s = load_s + layout_.AloneS(job.attempt.gpus, attempt_s);
  if (attempt_s < solo_s) task.whole_solo_s = load_s + layout_.AloneS(job.attempt.gpus, solo_s);
  return task;
}

void Results::TaskEnded(Job& job, core::TaskState state, const std::string& reason,
                        base::Time now) {
  last_end_ = std::max(last_end_, now);
  starts_in_vain_ = 0;
  if (state == core::TaskState::kRejected) {
    ++totals_.rejected;
  } else if (state != core::TaskState::kSucceeded) {
    ++totals_.failed;
  }
  if (!options_.record && !options_.on_task) return;
  report::RunTask task = Described(job, state, now);
  if (state != core::TaskState::kSucceeded) task.reason = reason;
  if (options_.on_task) options_.on_task(task);
  if (recorder_) recorder_->Add(std::move(task));
}

RunResult Results::Finish(std::vector<SimDevice>& devices, std::int64_t samples) {
  RunResult result{.totals = totals_};
  Totals& totals = result.totals;
  totals.samples = samples;
  totals.makespan_s = base::Seconds(last_end_ - from_);
  for (SimDevice& device : devices) {
    device.Advance(last_end_);
    totals.energy_j += device.energy_j();
    totals.sm_active += device.sm_s();
    totals.memory_mib += device.mib_s();
  }
  const double gpu_s = totals.makespan_s * static_cast<double>(devices.size());
  totals.sm_active = gpu_s > 0 ? totals.sm_active / gpu_s : 0;
  totals.memory_mib = gpu_s > 0 ? totals.memory_mib / gpu_s : 0;
  if (recorder_) result.record = recorder_->Finish(last_end_);
  return result;
}

}  // namespace carma::sim

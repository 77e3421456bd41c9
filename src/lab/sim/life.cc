// A task from its submission to its end: its attempts, its messages to and from the core, and sums.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <utility>

#include "base/signal_name.h"

#include "lab/sim/chance.h"
#include "lab/sim/simulation.h"

namespace carma::sim {

Simulation::JobIndex Simulation::NewJob(const Arrival& arrival, std::size_t number) {
  JobIndex index = 0;
  if (free_jobs_.empty()) {
    index = static_cast<JobIndex>(jobs_.size());
    jobs_.emplace_back();
  } else {
    index = free_jobs_.back();
    free_jobs_.pop_back();
    jobs_[index] = Job{};
  }
  Job& job = jobs_[index];
  job.id = core::TaskId{number + 1};
  job.arrival = &arrival;
  job.submitted = now_;
  job.solo_s = arrival.solo_s.value_or(arrival.workload->solo_s);
  if (options_.noise > 0) {
    job.solo_s *= std::exp(options_.noise * Chance(options_.seed, Draw::kNoise, number).Normal());
  }
  job_of_.emplace(core::Number(job.id), index);
  ++totals_.tasks;
  return index;
}

void Simulation::Submit(std::uint32_t index, std::span<const JobIndex> jobs) {
  CatchUp(index);
  const bool at_once = options_.estimates.takes == base::Duration{0};
  for (const JobIndex each : jobs) {
    Job& job = jobs_[each];
    job.node = index;
    events_.emplace_back(core::TaskSubmitted{job.id, RequestOf(job, index)});
    if (at_once) {
      events_.emplace_back(EstimateFor(job));
      if (IsPatient(job)) timers_.Set(JobTimer(each), now_ + options_.above.wait);
    } else {
      job.phase = Phase::kEstimating;
      timers_.Set(JobTimer(each), now_ + options_.estimates.takes);
    }
  }
  totals_.task_events += static_cast<std::int64_t>((at_once ? 2 : 1) * jobs.size());
  nodes_[index].waiting += static_cast<int>(jobs.size());
  Tell(index);
  if (!options_.on_start || !at_once) return;
  const auto starts = nodes_[index].core.scheduler().ExpectedStarts(now_);
  for (const JobIndex each : jobs) {
    const auto start = starts.find(jobs_[each].id);
    if (start != starts.end()) jobs_[each].told = start->second;
  }
}

void Simulation::Launch(std::uint32_t index, const core::StartTask& start) {
  const JobIndex job_index = job_of_.at(core::Number(start.id));
  Job& job = jobs_[job_index];
  Node& node = nodes_[index];
  --node.waiting;
  if (job.recovering) --node.recovering;
  job.recovering = false;
  ++node.launched;
  if (job.parts == 0) job.gpus.clear();
  for (const core::Placement& placement : start.placement) {
    const std::uint32_t gpu = node.first_gpu + core::Number(placement.gpu);
    job.gpus.push_back(gpu);
    ++observed_[gpu].unseen;
    if (launched_[gpu]++ == 0) --node.idle_gpus;
  }
  // A task on several servers begins when it has all of them.
  if (!job.nodes.empty() && ++job.parts < job.nodes.size()) return;
  job.parts = 0;
  if (job.told) options_.on_start({job.submitted, now_, *std::exchange(job.told, std::nullopt)});
  job.phase = Phase::kLoading;
  job.attempt = start.attempt;
  ++job.attempts;
  ++totals_.attempts;
  job.launched = now_;
  job.work_s = job.solo_s - job.saved_s;
  job.saved = false;
  job.slot_ends.reset();
  if (options_.time_slot > base::Duration{0}) job.slot_ends = now_ + options_.time_slot;
  job.promised_mib = start.placement.empty() ? 0 : start.placement.front().claim_mib;
  job.alone = start.alone;
  job.limit_mib = MpsLimitOf(start);
  if (job.limit_mib > 0) {
    events_.emplace_back(core::SharingChosen{
        start.id,
        start.attempt,
        {.method = core::SharingMethod::kMps, .memory_limit_mib = job.limit_mib}});
  }
  // The amount of work after which it fails by itself.
  job.fails_after_s = std::numeric_limits<double>::infinity();
  if (options_.failures.per_hour > 0) {
    base::Rng rng = Chance(options_.seed, Draw::kFailure,
                           core::Number(job.id) * 1'000 + static_cast<std::uint64_t>(job.attempt));
    job.fails_after_s = rng.Exponential(3600.0 / options_.failures.per_hour);
  }
  timers_.Set(JobTimer(job_index), now_ + options_.memory.load);
}

// The limit that the daemon would give the MPS server (daemon/starts.cc).
std::int64_t Simulation::MpsLimitOf(const core::StartTask& start) const {
  const core::Placement& at = start.placement.front();
  const Job& job = jobs_[job_of_.at(core::Number(start.id))];
  const bool client =
      options_.collocation == core::SharingMethod::kMps && !start.alone && !IsNoMpsClient(job);
  if (!options_.mps_memory_limit || !client || at.claim_mib <= 0) return 0;
  const std::uint32_t gpu = job.gpus.front();
  return std::min(std::max(at.claim_mib, start.bound_mib) + options_.policy.margin_mib,
                  gpus_[gpu].usable_mib());
}

void Simulation::OnChanged(std::uint32_t index, const core::TaskRecord& record) {
  if (appraisals_ && !core::HoldsGpus(record.state)) Learn(record);
  if (core::IsFinal(record.state)) {
    const JobIndex ended = job_of_.at(core::Number(record.id));
    Job& job = jobs_[ended];
    LeaveServer(index, job);
    if (!job.nodes.empty() && ++job.parts < job.nodes.size()) return;
    if (GoesBack(job, record.state)) return SendBack(ended, record.state);
    return Retire(ended, record.state);
  }
  if (record.state != core::TaskState::kQueued || record.queue != core::QueueKind::kRecovery)
    return;
  Job& job = jobs_[job_of_.at(core::Number(record.id))];
  if (!job.recovering) ++nodes_[index].recovering;
  job.recovering = true;
}

void Simulation::Exit(JobIndex index, core::ExitKind kind) {
  Job& job = jobs_[index];
  const bool stopped = job.phase == Phase::kStopping;
  if (stopped) ++starts_in_vain_;
  if (job.holds) {
    Leave(index);
  } else {
    for (const std::uint32_t gpu : job.gpus) --observed_[gpu].unseen;
  }
  for (const std::uint32_t gpu : job.gpus) {
    if (--launched_[gpu] == 0) ++nodes_[node_of_[gpu]].idle_gpus;
  }
  timers_.Clear(JobTimer(index));
  job.executed_s += base::Seconds(now_ - job.launched);
  if (kind == core::ExitKind::kSuccess) {
    const double alone_s = AloneS(job, job.work_s);
    slowdown_ += alone_s > 0 ? base::Seconds(now_ - job.allocated) / alone_s : 1.0;
    ++totals_.succeeded;
  }
  if (keeps_history_) {
    report::Attempt attempt{.started = job.launched, .ended = now_};
    attempt.end = stopped                                ? report::AttemptEnd::kStopped
                  : kind == core::ExitKind::kSuccess     ? report::AttemptEnd::kSucceeded
                  : kind == core::ExitKind::kOutOfMemory ? report::AttemptEnd::kOutOfMemory
                                                         : report::AttemptEnd::kFailed;
    for (const std::uint32_t gpu : job.gpus)
      attempt.gpus.push_back(static_cast<int>(gpu) / mig_.instances);
    std::sort(attempt.gpus.begin(), attempt.gpus.end());
    attempt.gpus.erase(std::unique(attempt.gpus.begin(), attempt.gpus.end()), attempt.gpus.end());
    if (job.promised_mib > 0) attempt.promised_mib = static_cast<double>(job.promised_mib);
    job.history.push_back(std::move(attempt));
  }
  core::ExitInfo exit{.kind = kind, .code = kind == core::ExitKind::kSuccess ? 0 : 1};
  if (stopped) exit = {.kind = kind, .signal = SIGTERM};
  if (job.saved) {
    const auto asked = base::SignalNumber(options_.policy.slots.checkpoint_signal);
    exit = {.kind = kind, .signal = asked.value_or(SIGTERM)};
  }
  job.phase = Phase::kWaiting;
  job.untaught = true;
  // Once the last of several servers has been told, the task may be gone.
  const core::TaskExited exited{job.id, job.attempt, std::move(exit)};
  for (const std::uint32_t each : std::vector(ServersOf(job).begin(), ServersOf(job).end())) {
    --nodes_[each].launched;
    CatchUp(each);  // what it has shown until its end teaches
    events_.emplace_back(exited);
    ++totals_.task_events;
    ++nodes_[each].waiting;
    Tell(each);
  }
}

void Simulation::LeaveServer(std::uint32_t index, Job& job) {
  Node& node = nodes_[index];
  --node.waiting;
  if (job.recovering) --node.recovering;
  job.recovering = false;
}

void Simulation::Retire(JobIndex index, core::TaskState state) {
  Job& job = jobs_[index];
  CARMA_CHECK(job.phase == Phase::kWaiting || job.phase == Phase::kEstimating,
              "a task ended while its process lives");
  timers_.Clear(JobTimer(index));
  if (job.placed) LeaveAbove(index);
  last_end_ = std::max(last_end_, now_);
  if (state == core::TaskState::kRejected) {
    ++totals_.rejected;
  } else if (state != core::TaskState::kSucceeded) {
    ++totals_.failed;
  }
  if (job.attempts > 0) {
    const double jct_s = base::Seconds(now_ - job.submitted);
    ++executed_;
    jct_s_ += jct_s;
    execution_s_ += job.executed_s;
    waiting_s_ += jct_s - job.executed_s;
  }
  if (keeps_history_) {
    const trace::Workload& workload = *job.arrival->workload;
    report::RunTask task{.id = core::Number(job.id),
                         .name = workload.id,
                         .group = workload.weight_class,
                         .user = job.arrival->user,
                         .gpus = workload.gpus,
                         .submitted = job.submitted,
                         .ended = now_,
                         .state = state,
                         .lost_s = job.lost_s,
                         .attempts = std::move(job.history)};
    if (job.attempts > 0) {
      task.solo_s = base::Seconds(options_.memory.load) + AloneS(job, job.work_s);
      if (job.work_s < job.solo_s)
        task.whole_solo_s = base::Seconds(options_.memory.load) + AloneS(job, job.solo_s);
    }
    if (options_.on_task) options_.on_task(task);
    if (recorder_) recorder_->Add(std::move(task));
  }
  job_of_.erase(core::Number(job.id));
  starts_in_vain_ = 0;
  free_jobs_.push_back(index);
}

}  // namespace carma::sim

// The life of a task from its submission to its end, and its messages to and from the servers'
// cores.
#include <csignal>
#include <utility>

#include "base/signal_name.h"

#include "lab/sim/simulation.h"

namespace carma::sim {

void Simulation::Submit(std::uint32_t index, std::span<const JobIndex> jobs) {
  CatchUp(index);
  const bool at_once = options_.estimates.takes == base::Duration{0};
  for (const JobIndex each : jobs) {
    Job& job = jobs_[each];
    job.node = index;
    events_.emplace_back(core::TaskSubmitted{job.id, RequestOf(options_, layout_, job, index)});
    if (at_once) {
      events_.emplace_back(predictions_.AnswerFor(job));
      if (IsPatient(job)) agenda_.Set(now() + options_.above.wait, Due::kTask, each);
    } else {
      job.phase = Phase::kEstimating;
      agenda_.Set(now() + options_.estimates.takes, Due::kTask, each);
    }
  }
  results_.CountEvents((at_once ? 2 : 1) * jobs.size());
  servers_[index].queue.waiting += static_cast<int>(jobs.size());
  Tell(index);
  if (!options_.on_start || !at_once) return;
  const auto starts = servers_[index].core.scheduler().ExpectedStarts(now());
  for (const JobIndex each : jobs) {
    const auto start = starts.find(jobs_[each].id);
    if (start != starts.end()) jobs_[each].told = start->second;
  }
}

void Simulation::OnEstimate(JobIndex index) {
  Job& job = jobs_[index];
  job.phase = Phase::kWaiting;
  if (IsPatient(job)) agenda_.Set(now() + options_.above.wait, Due::kTask, index);
  // Loops over a copy of the servers, because the last iteration may remove the task.
  for (const std::uint32_t each : std::vector(job.Servers().begin(), job.Servers().end())) {
    CatchUp(each);
    events_.emplace_back(predictions_.AnswerFor(job));
    Tell(each);
  }
}

void Simulation::LeaveQueue(std::uint32_t index, Job& job) {
  Monitor::Queue& queue = servers_[index].queue;
  --queue.waiting;
  if (std::exchange(job.recovering, false)) --queue.recovering;
}

void Simulation::Launch(std::uint32_t index, const core::StartTask& start) {
  const JobIndex job_index = jobs_.IndexOf(start.id);
  Job& job = jobs_[job_index];
  LeaveQueue(index, job);
  ++servers_[index].launched;
  if (job.parts == 0) job.attempt.gpus.clear();
  for (const core::Placement& placement : start.placement) {
    job.attempt.gpus.push_back(layout_.servers()[index].first_gpu + core::Number(placement.gpu));
    machines_.AddProcess(job.attempt.gpus.back());
  }
  // A task on several servers begins when all of them have started it.
  if (!job.above.nodes.empty() && ++job.parts < job.above.nodes.size()) return;
  job.parts = 0;
  if (job.told) options_.on_start({job.submitted, now(), *std::exchange(job.told, std::nullopt)});
  StartAttempt(job_index, start);
  if (job.attempt.limit_mib == 0) return;
  events_.emplace_back(core::SharingChosen{
      start.id,
      start.attempt,
      {.method = core::SharingMethod::kMps, .memory_limit_mib = job.attempt.limit_mib}});
}

void Simulation::OnChanged(std::uint32_t index, const core::TaskRecord& record) {
  const JobIndex changed = jobs_.IndexOf(record.id);
  Job& job = jobs_[changed];
  if (!core::HoldsGpus(record.state) && std::exchange(job.untaught, false))
    predictions_.Learn(job, record, now());
  if (core::IsFinal(record.state)) {
    LeaveQueue(index, job);
    if (!job.above.nodes.empty() && ++job.parts < job.above.nodes.size()) return;
    if (GoesBack(job, record.state)) return SendBack(changed, record.state);
    return Retire(changed, record);
  }
  if (record.state != core::TaskState::kQueued || record.queue != core::QueueKind::kRecovery)
    return;
  if (!std::exchange(job.recovering, true)) ++servers_[index].queue.recovering;
}

// Called when the task's time slice (RunOptions::time_slot) is over.
void Simulation::EndSlot(Job& job) {
  if (servers_[job.node].queue.waiting == 0) return;
  CatchUp(job.node);
  events_.emplace_back(core::PriorityChanged{job.id, -++job.slots});
  events_.emplace_back(core::RequeueRequested{job.id});
  Tell(job.node);
}

void Simulation::Exit(JobIndex index, core::ExitKind kind) {
  Job& job = jobs_[index];
  EndAttempt(index);
  results_.AttemptEnded(job, kind, now());
  core::ExitInfo exit{.kind = kind, .code = kind == core::ExitKind::kSuccess ? 0 : 1};
  if (job.phase == Phase::kStopping) exit = {.kind = kind, .signal = SIGTERM};
  if (job.attempt.saved) {
    const auto asked = base::SignalNumber(options_.policy.slots.checkpoint_signal);
    exit = {.kind = kind, .signal = asked.value_or(SIGTERM)};
  }
  job.phase = Phase::kWaiting;
  job.untaught = true;
  // Built before the loop, because the last iteration may remove the task.
  const core::TaskExited exited{job.id, job.attempt.number, std::move(exit)};
  for (const std::uint32_t each : std::vector(job.Servers().begin(), job.Servers().end())) {
    --servers_[each].launched;
    CatchUp(each);  // the core needs the samples from before the end
    events_.emplace_back(exited);
    results_.CountEvents(1);
    ++servers_[each].queue.waiting;
    Tell(each);
  }
}

void Simulation::Retire(JobIndex index, const core::TaskRecord& record) {
  Job& job = jobs_[index];
  CARMA_CHECK(job.phase == Phase::kWaiting || job.phase == Phase::kEstimating,
              "a task ended while its process was still running");
  agenda_.Clear(Due::kTask, index);
  if (job.above.placed) LeaveAbove(index);
  results_.TaskEnded(job, record.state, *record.reason.text, now());
  jobs_.Remove(index);
}

}  // namespace carma::sim

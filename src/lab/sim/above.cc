// The queue that feeds the servers: which tasks wait, which run on which servers, and when a
// returned task can start again.
#include "lab/sim/above.h"

#include <algorithm>

#include "lab/sim/simulation.h"

namespace carma::sim {

double Simulation::RateOf(const Job& job) const {
  const Alike& alike = *job.above.alike;
  const bool alone = alike.asked.whole || !options_.above.WithCarma();
  const core::TaskRecord record{.request = alike.request, .profile = alike.profile};
  const std::int64_t mib = std::min(alike.asked.memory_mib, layout_.largest_mib());
  return core::RateOf(record, mib, layout_.largest_mib(), alone);
}

void Simulation::EnterAbove(JobIndex index) {
  Job& job = jobs_[index];
  job.phase = Phase::kWaiting;
  job.above.alike = candidates_.AlikeOf(job);
  // A task that no server could take is submitted to the first server, which rejects it.
  if (!candidates_.AnyCould(*job.above.alike)) return Submit(0, {&index, 1});
  job.above.lined_up = now();
  lines_.Add({core::Number(job.id), index, job.uid, RateOf(job)}, job.arrival->user);
  above_changed_ = true;
}

void Simulation::PlaceOn(JobIndex index, std::span<const std::uint32_t> nodes) {
  Job& job = jobs_[index];
  if (asked_) asked_->Placed(job);
  lines_.Remove(job.uid, core::Number(job.id));
  job.above.placed = true;
  job.parts = 0;
  if (IsGang(layout_, job)) job.above.nodes.assign(nodes.begin(), nodes.end());
  core::TaskRequest request = job.above.alike->request;
  request.uid = job.uid;
  lines_.Take({.id = job.id, .request = std::move(request)}, RateOf(job), now());
  job.node = nodes.front();
  for (const std::uint32_t each : nodes) {
    servers_[each].whole = IsGang(layout_, job);
    if (slurm_) job.above.pinned = slurm_->Book(job, each, now());
  }
  // A copy, because `job` may be destroyed before the last server receives its part of the task.
  const std::vector<std::uint32_t> servers(nodes.begin(), nodes.end());
  for (const std::uint32_t each : servers) Submit(each, {&index, 1});
}

bool Simulation::IsPatient(const Job& job) {
  const Above& above = options_.above;
  if (!HasAbove() || !above.WithCarma() || !job.above.placed || IsGang(layout_, job)) return false;
  const bool again = above.placing == Placing::kAsked || job.above.waits < above.wait_requeues;
  return again && candidates_.AnyCould(*job.above.alike, job.node);
}

void Simulation::TakeBack(JobIndex index) {
  Job& job = jobs_[index];
  job.above.leaving = true;
  job.above.shunned = job.node;
  ++job.above.waits;
  events_.emplace_back(core::CancelRequested{job.id, "the queue above"});
  Tell(job.node);
}

bool Simulation::GoesBack(const Job& job, core::TaskState state) const {
  if (!job.above.placed) return false;
  if (job.above.leaving) return true;
  const Above& above = options_.above;
  return above.placing == Placing::kSlurm && above.gres == Gres::kCarma && !IsGang(layout_, job) &&
         state == core::TaskState::kOutOfMemory && job.above.retries < options_.max_recoveries;
}

void Simulation::SendBack(JobIndex index, core::TaskState state) {
  Job& job = jobs_[index];
  LeaveAbove(index);
  if (state == core::TaskState::kOutOfMemory) {
    ++job.above.retries;
    job.above.shunned.reset();
    const std::int64_t had_mib = std::min(job.above.alike->asked.memory_mib, layout_.largest_mib());
    job.above.raised_mib =
        std::min(layout_.largest_mib(), had_mib + options_.policy.recovery_step_mib);
  }
  results_.SentBack();
  job.phase = Phase::kAway;
  const bool slurm = options_.above.placing == Placing::kSlurm;
  agenda_.Set(now() + (slurm ? options_.above.requeue_delay : base::Duration{0}), Due::kTask,
              index);
}

void Simulation::LeaveAbove(JobIndex index) {
  Job& job = jobs_[index];
  if (slurm_) slurm_->Release(job);
  for (const std::uint32_t each : job.Servers()) servers_[each].whole = false;
  lines_.Release(job.id, now());
  job.above.nodes.clear();
  job.above.pinned.clear();
  job.above.placed = false;
  job.above.leaving = false;
  above_changed_ = true;
}

void Simulation::Dispatch() {
  while (idle_first_) {
    const std::optional<IdleFirst::Placed> next = idle_first_->Next();
    if (!next) return;
    Submit(next->server, {&next->job, 1});
  }
  if (!std::exchange(above_changed_, false) || lines_.empty()) return;
  if (asked_) {
    if (now() >= asked_->ReportsBy()) Report();
    asked_->Place(now(), Placer());
  } else {
    slurm_->PlaceInOrder(now(), Placer());
  }
  if (lines_.empty() || agenda_.IsSet(Due::kAbove)) return;
  if (asked_ && options_.monitor.mode != MonitorOptions::Mode::kNone) {
    agenda_.Set(asked_->ReportsBy(), Due::kAbove);
  } else if (slurm_ && options_.above.backfill) {
    agenda_.Set(now() + options_.above.backfill_every, Due::kAbove);
  }
}

PlaceTask Simulation::Placer() {
  return [this](JobIndex job, std::span<const std::uint32_t> servers) { PlaceOn(job, servers); };
}

void Simulation::OnAbove() {
  if (asked_) {
    Report();
  } else {
    slurm_->Backfill(now(), Placer());
  }
  above_changed_ = true;  // requests another pass
}

void Simulation::Report() {
  asked_->Reported(now());
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    CatchUp(i);
    if (!events_.empty()) Tell(i);
  }
}

}  // namespace carma::sim

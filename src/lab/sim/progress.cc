// The work of a task while it computes, how much of it survives a stop or a crash, and when its
// next event comes.
#include <algorithm>
#include <cmath>

#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

// A gain of saved work below this is a rounding error.
constexpr double kGainS = 1e-3;
// How often each task may be ended before any of them gets work done. Time slices that grow from a
// second have reached their longest by then.
constexpr std::int64_t kStartsOfEach = 100;
constexpr std::int64_t kStartsOfFew = 1'000;

base::Duration RoundUp(double seconds) {
  // No timer needs to be later than this, and its sum with any time of a run stays in range.
  constexpr double kLongestMs = 1e15;
  return base::Duration(static_cast<std::int64_t>(std::min(std::ceil(seconds * 1000), kLongestMs)));
}

}  // namespace

void Simulation::Begin(JobIndex index) {
  Job& job = jobs_[index];
  job.phase = Phase::kComputing;
  job.holds = true;
  job.allocated = now_;
  job.since = now_;
  job.left_s = std::min(job.work_s, job.fails_after_s);
  job.pause_s = 0;
  job.pace = 0;
  job.paces.assign(job.gpus.size(), 0);
  job.memory_steps.reset();
  if (const auto step = NextStep(options_.memory, base::Duration{0}))
    job.memory_steps = now_ + *step;
  job.checkpoints.reset();
  if (options_.checkpoints.every > base::Duration{0})
    job.checkpoints = now_ + options_.checkpoints.every;
}

void Simulation::OnComputing(JobIndex index) {
  const Job& job = jobs_[index];
  if (now_ >= job.ends) {
    return Exit(
        index, job.fails_after_s < job.work_s ? core::ExitKind::kFailed : core::ExitKind::kSuccess);
  }
  if (job.memory_steps && *job.memory_steps <= now_) {
    StepMemory(index);
    for (const std::uint32_t each : ServersOf(job)) SetTick(each);
    return;
  }
  if (job.checkpoints && *job.checkpoints <= now_) return WriteCheckpoint(index);
  CARMA_CHECK(job.slot_ends && *job.slot_ends <= now_, "a computing task has nothing to do");
  EndSlot(index);
}

void Simulation::Schedule(JobIndex index) {
  Job& job = jobs_[index];
  if (job.phase != Phase::kComputing) return;
  // A task on several GPUs has no pace until all its GPUs are computed, and then no end yet.
  if (job.pace <= 0 && job.left_s > 0) return timers_.Clear(JobTimer(index));
  job.ends = job.since + (job.left_s > 0 ? RoundUp(job.left_s / job.pace) : base::Duration{0});
  job.ends = std::max(job.ends, now_);
  base::Time next = job.ends;
  for (const std::optional<base::Time>& each : {job.memory_steps, job.checkpoints, job.slot_ends}) {
    if (each) next = std::min(next, *each);
  }
  timers_.Set(JobTimer(index), next);
}

// Advances the work to this moment, at the pace that held since its last change.
void Simulation::Advance(Job& job) {
  const double done_s = job.pace * base::Seconds(now_ - job.since);
  job.left_s -= done_s;
  job.pause_s = std::max(0.0, job.pause_s - done_s);
  job.since = now_;
}

void Simulation::WriteCheckpoint(JobIndex index) {
  Job& job = jobs_[index];
  Advance(job);
  const double done_s = std::min(job.work_s, job.fails_after_s) - (job.left_s - job.pause_s);
  const double saved_s = job.solo_s - job.work_s + done_s;
  if (saved_s > job.saved_s + kGainS) starts_in_vain_ = 0;
  job.saved_s = std::max(job.saved_s, saved_s);
  // Converted at the present pace, so that a slow task does not also save slowly.
  const double cost_s = base::Seconds(options_.checkpoints.cost) * job.pace;
  job.lost_s = job.lost_s.value_or(0) + base::Seconds(options_.checkpoints.cost);
  job.left_s += cost_s;
  job.pause_s += cost_s;
  if (job.checkpoints) *job.checkpoints += options_.checkpoints.every;
  Schedule(index);
}

void Simulation::EndSlot(JobIndex index) {
  Job& job = jobs_[index];
  *job.slot_ends += options_.time_slot;
  Schedule(index);
  const bool kept_nothing = !options_.checkpoints.on_stop && job.saved_s <= job.solo_s - job.work_s;
  if (nodes_[job.node].waiting == 0 || kept_nothing) return;
  CatchUp(job.node);
  events_.emplace_back(core::PriorityChanged{job.id, -++job.slots});
  events_.emplace_back(core::RequeueRequested{job.id});
  Tell(job.node);
}

bool Simulation::InVain() const {
  const auto tasks = static_cast<std::int64_t>(job_of_.size());
  return starts_in_vain_ > kStartsOfFew + kStartsOfEach * tasks;
}

// The loss is the work that was not saved, and another start. The cost of saving is counted when
// the task saves.
void Simulation::LoseTo(JobIndex index) {
  Job& job = jobs_[index];
  double again_s = base::Seconds(options_.memory.load);
  if (job.phase == Phase::kComputing) {
    Advance(job);
    const double done_s = std::min(job.work_s, job.fails_after_s) - (job.left_s - job.pause_s);
    again_s += std::max(0.0, done_s - (job.saved_s - (job.solo_s - job.work_s)));
  }
  job.lost_s = job.lost_s.value_or(0) + again_s;
}

// A task that can save does so at once, and ends.
void Simulation::AskToSave(const core::AskToSave& ask) {
  const JobIndex index = job_of_.at(core::Number(ask.id));
  Job& job = jobs_[index];
  if (job.phase != Phase::kComputing || !options_.checkpoints.on_stop) return;
  WriteCheckpoint(index);
  LoseTo(index);
  job.saved = true;
  job.phase = Phase::kStopping;
  timers_.Set(JobTimer(index), now_ + options_.checkpoints.cost + options_.stopping.takes);
}

void Simulation::Stop(const core::StopTask& stop) {
  const JobIndex index = job_of_.at(core::Number(stop.id));
  Job& job = jobs_[index];
  if (job.phase == Phase::kCrashing || job.saved) return;  // it is ending already
  base::Duration takes = options_.stopping.takes;
  if (job.phase == Phase::kComputing && options_.checkpoints.on_stop) {
    WriteCheckpoint(index);
    takes += options_.checkpoints.cost;
  }
  LoseTo(index);
  job.phase = Phase::kStopping;
  timers_.Set(JobTimer(index), now_ + takes);
}

}  // namespace carma::sim

// The phases of a process: it loads, allocates, computes, saves, and exits or is stopped.
#include "lab/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/result.h"

namespace carma::sim {
namespace {

// True if the task runs outside MPS, so its kernels take turns with those of the MPS clients on its
// GPUs.
bool IsNoMpsClient(const RunOptions& options, const Job& job) {
  return options.policy.gangs_take_turns && job.workload().gpus > 1;
}

}  // namespace

void Simulation::StartAttempt(JobIndex index, const core::StartTask& start) {
  Job& job = jobs_[index];
  JobAttempt& attempt = job.attempt;
  results_.Launched(job);
  job.phase = Phase::kLoading;
  attempt.number = start.attempt;
  attempt.launched = now();
  attempt.saved = false;
  const bool in_slots = options_.time_slot > base::Duration{0};
  attempt.slot_ends = in_slots ? now() + options_.time_slot : kUnset;
  attempt.promised_mib = start.placement.empty() ? 0 : start.placement.front().claim_mib;
  attempt.alone = start.alone;
  attempt.limit_mib = MpsLimitOf(job, start);
  // The attempt fails for a reason other than memory once it has done this much work.
  double fails_after_s = std::numeric_limits<double>::infinity();
  if (options_.failures.per_hour > 0) {
    base::Rng rng =
        Chance(options_.seed, Draw::kFailure,
               core::Number(job.id) * 1'000 + static_cast<std::uint64_t>(start.attempt));
    fails_after_s = rng.Exponential(3600.0 / options_.failures.per_hour);
  }
  job.work.Launch(fails_after_s);
  agenda_.Set(now() + options_.memory.load, Due::kTask, index);
}

// The limit that the daemon would set on the MPS server (daemon/engine/starts.cc).
std::int64_t Simulation::MpsLimitOf(const Job& job, const core::StartTask& start) const {
  const core::Placement& at = start.placement.front();
  const bool client = options_.collocation == core::SharingMethod::kMps && !start.alone &&
                      !IsNoMpsClient(options_, job);
  const std::uint32_t gpu = job.attempt.gpus.front();
  // MPS cannot limit the clients of a server that spans several GPUs (task::MpsLimitHolds).
  const bool holds = options_.policy.gangs_take_turns ||  // so each GPU has its own server
                     layout_.servers()[layout_.ServerOf(gpu)].gpu_count == 1;
  if (!options_.mps_memory_limit || !client || !holds || at.claim_mib <= 0) return 0;
  return std::min(std::max(at.claim_mib, start.bound_mib) + options_.policy.margin_mib,
                  layout_.UsableMib(gpu));
}

Machines::Resident Simulation::ResidentOf(const Job& job) const {
  std::uint32_t user = options_.policy.users_take_turns ? job.uid : 0;
  if (IsNoMpsClient(options_, job))
    user = core::kNoMpsClient | static_cast<std::uint32_t>(core::Number(job.id));
  return {.id = job.id,
          .workload = &job.workload(),
          .gpus = job.attempt.gpus,
          .servers = {job.Servers().begin(), job.Servers().end()},
          .user = user,
          .cores = CoresOf(options_, job),
          .limit_mib = job.attempt.limit_mib,
          .alone = job.attempt.alone};
}

void Simulation::Allocate(JobIndex index) {
  Job& job = jobs_[index];
  Machines::Resident resident = ResidentOf(job);
  if (!machines_.HasRoom(resident)) return OutOfMemory(index);
  job.phase = Phase::kComputing;
  job.work.Begin(now());
  JobAttempt& attempt = job.attempt;
  attempt.holds = true;
  attempt.allocated = now();
  SetMemoryStep(attempt);
  const base::Duration every = options_.checkpoints.every;
  attempt.checkpoints = every > base::Duration{0} ? now() + every : kUnset;
  machines_.Enter(now(), index, std::move(resident));
  Schedule(index);
}

void Simulation::OnComputing(JobIndex index) {
  Job& job = jobs_[index];
  JobAttempt& attempt = job.attempt;
  if (now() >= attempt.ends)
    return Exit(index, job.work.Fails() ? core::ExitKind::kFailed : core::ExitKind::kSuccess);
  if (attempt.memory_steps <= now()) {
    StepMemory(index);
    return SetTicks(job);
  }
  if (attempt.checkpoints <= now()) return WriteCheckpoint(index);
  CARMA_CHECK(attempt.slot_ends <= now(), "a computing task has no work left");
  attempt.slot_ends += options_.time_slot;
  Schedule(index);
  // The time slice ends only if the task has saved its work or will save it when stopped. Otherwise
  // a stop would lose all the work.
  if (options_.checkpoints.on_stop || job.work.HasSaved()) EndSlot(job);
}

void Simulation::StepMemory(JobIndex index) {
  Job& job = jobs_[index];
  if (!machines_.Resize(now(), index, now() - job.attempt.allocated)) {
    job.attempt.holds = false;
    return OutOfMemory(index);
  }
  SetMemoryStep(job.attempt);
  Schedule(index);
}

void Simulation::SetMemoryStep(JobAttempt& attempt) const {
  const auto step = NextStep(options_.memory, now() - attempt.allocated);
  attempt.memory_steps = step ? attempt.allocated + *step : kUnset;
}

void Simulation::OutOfMemory(JobIndex index) {
  jobs_[index].phase = Phase::kCrashing;
  results_.OutOfMemory();
  agenda_.Set(now() + options_.memory.crash_delay, Due::kTask, index);
}

void Simulation::WriteCheckpoint(JobIndex index) {
  Job& job = jobs_[index];
  if (job.work.Save(now(), options_.checkpoints.cost)) results_.WorkSaved();
  job.attempt.checkpoints += options_.checkpoints.every;
  Schedule(index);
}

void Simulation::Schedule(JobIndex index) {
  Job& job = jobs_[index];
  if (!job.Computes()) return;
  // The end is unknown until the task's pace on all its GPUs has been calculated.
  const std::optional<base::Time> ends = job.work.EndsAt(now());
  if (!ends) return agenda_.Clear(Due::kTask, index);
  JobAttempt& attempt = job.attempt;
  attempt.ends = *ends;
  agenda_.Set(std::min({*ends, attempt.memory_steps, attempt.checkpoints, attempt.slot_ends}),
              Due::kTask, index);
}

void Simulation::AskToSave(JobIndex index) {
  Job& job = jobs_[index];
  if (!job.Computes() || !options_.checkpoints.on_stop) return;
  Stop(index);
  job.attempt.saved = true;
}

void Simulation::Stop(JobIndex index) {
  Job& job = jobs_[index];
  if (job.phase == Phase::kCrashing || job.attempt.saved) return;  // already ending
  base::Duration takes = options_.stopping.takes;
  if (job.Computes() && options_.checkpoints.on_stop) {
    WriteCheckpoint(index);
    takes += options_.checkpoints.cost;
  }
  job.work.Stop(now(), options_.memory.load, job.Computes());
  job.phase = Phase::kStopping;
  agenda_.Set(now() + takes, Due::kTask, index);
}

void Simulation::EndAttempt(JobIndex index) {
  Job& job = jobs_[index];
  if (std::exchange(job.attempt.holds, false)) machines_.Leave(now(), index);
  for (const std::uint32_t gpu : job.attempt.gpus) machines_.RemoveProcess(gpu);
  agenda_.Clear(Due::kTask, index);
}

// Estimates the remaining time from the attempt's mean speed, as in task/progress/tracker.h.
std::optional<base::Duration> Simulation::LeftOf(const Job& job) const {
  constexpr base::Duration kFirst{60'000};
  constexpr std::uint64_t kOwnSeeds = 1'000'003;  // keeps these draws independent of others
  const ShownProgress& shown = options_.progress;
  const base::Duration span = now() - job.attempt.allocated;
  if (!job.Computes() || span < kFirst) return std::nullopt;
  base::Rng rng = Chance(options_.seed + kOwnSeeds, Draw::kProfile, core::Number(job.id));
  if (rng.Uniform() >= shown.share || span % shown.every > shown.every - shown.evaluates)
    return std::nullopt;
  const double left_s = job.work.LeftS(now());
  const double speed = (job.work.attempt_s() - left_s) / base::Seconds(span);
  const auto turn = static_cast<std::uint64_t>(span / shown.every);
  base::Rng wrong =
      Chance(options_.seed + kOwnSeeds, Draw::kNoise, core::Number(job.id) * 1000 + turn);
  if (speed <= 0) return std::nullopt;
  return base::Duration(static_cast<std::int64_t>(1000 * std::max(0.0, left_s) / speed *
                                                  std::exp(shown.noise * wrong.Normal())));
}

std::optional<core::ProgressSeen> Simulation::ProgressOn(std::uint32_t index) const {
  std::map<core::TaskId, base::Duration> left;
  for (const std::uint32_t gpu : layout_.GpusOf(index)) {
    for (const Occupant& each : machines_.gpu(gpu).occupants()) {
      const Job& job = jobs_[each.job];
      if (const auto printed = LeftOf(job)) left[job.id] = *printed;
    }
  }
  if (left.empty()) return std::nullopt;
  return core::ProgressSeen{{left.begin(), left.end()}};
}

}  // namespace carma::sim

// What the simulated daemons know about a task's memory, and learn when it ends.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimate/signature.h"
#include "lab/sim/chance.h"
#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

base::Duration LongerBy(base::Duration span, double times) {
  return base::Duration(std::llround(static_cast<double>(span.count()) * times));
}

}  // namespace

core::TaskRequest Simulation::RequestOf(const Job& job, std::uint32_t node) const {
  core::TaskRequest request = RequestOf(job);
  request.gpus = GpusOn(job, node);
  if (request.cpus && IsGang(job))
    request.cpus = std::max(1, static_cast<int>(std::ceil(CoresOn(job, node))));
  for (const std::uint32_t gpu : job.pinned) request.on_gpus.push_back(fmt::format("{}", gpu));
  return request;
}

core::TaskRequest Simulation::RequestOf(const Job& job) const {
  core::TaskRequest request{.gpus = job.arrival->workload->gpus,
                            .user = job.arrival->user,
                            .max_recoveries = options_.max_recoveries};
  const Checkpoints& checkpoints = options_.checkpoints;
  if (checkpoints.on_stop || checkpoints.every > base::Duration{0})
    request.checkpoint_signal = options_.policy.slots.checkpoint_signal;
  if (!job.arrival->gpu_type.empty()) request.gpu_type = job.arrival->gpu_type;
  if (!job.arrival->qos.empty()) request.qos = job.arrival->qos;
  if (!job.arrival->account.empty()) request.account = job.arrival->account;
  request.uid = UidOf(job);
  // A task that needs more than the server has could never start.
  const double cores = std::ceil(std::min(CoresOf(job), options_.host.cores));
  if (options_.host.promised && cores >= 1) request.cpus = static_cast<int>(cores);
  // The request of `carma trace replay` if a method has no answer.
  request.exclusive = options_.policy.pacing == core::Pacing::kImmediate &&
                      trace::Estimate(*job.arrival->workload, options_.estimates.source).whole_gpu;
  if (IsGang(job)) request.exclusive = true;
  // A task that ran out of memory is not started again, or Slurm does it.
  const bool by_slurm = options_.above.placing == Placing::kSlurm;
  if (IsGang(job) || by_slurm) request.max_recoveries = 0;
  return request;
}

// The answer before the error model changes it.
std::optional<core::Estimate> Simulation::AnswerFor(const Job& job) {
  if (appraisals_) return appraisals_->Of(*job.arrival->workload);
  const trace::MemoryEstimate told =
      trace::Estimate(*job.arrival->workload, options_.estimates.source);
  // The original has no exclusive tasks: a task of unknown need asks for all memory of a GPU.
  const bool asks_for_all = told.whole_gpu && options_.policy.pacing != core::Pacing::kImmediate;
  const std::optional<std::int64_t> mib = asks_for_all ? largest_mib_ : told.mib;
  if (!mib) return std::nullopt;
  return core::Estimate{*mib, "simulated"};
}

std::optional<core::Estimate> Simulation::EstimateOf(const Job& job) {
  const EstimateOptions& options = options_.estimates;
  std::optional<core::Estimate> estimate = AnswerFor(job);
  base::Rng rng = Chance(options_.seed, Draw::kEstimate, core::Number(job.id));
  if (rng.Uniform() < options.missing_share) return std::nullopt;
  const bool errs = options.bias != 0 || options.sigma > 0;
  if (!estimate || !errs || IsMeasured(*estimate)) return estimate;
  const double factor = std::exp(options.bias + options.sigma * rng.Normal());
  const auto scaled = [&](std::int64_t mib) {
    const auto wrong_mib = std::llround(static_cast<double>(mib) * factor);
    return std::clamp<std::int64_t>(wrong_mib, 1, largest_mib_);
  };
  estimate->peak_mib = scaled(estimate->peak_mib);
  if (estimate->predicted_mib) estimate->predicted_mib = scaled(*estimate->predicted_mib);
  return estimate;
}

core::Profile Simulation::PredictedProfile(const Job& job) {
  const EstimateOptions& options = options_.estimates;
  const trace::Workload& workload = *job.arrival->workload;
  base::Rng rng = Chance(options_.seed, Draw::kProfile, core::Number(job.id));
  const auto wrong = [&rng](double sigma) { return std::exp(sigma * rng.Normal()); };
  const double of_activity = wrong(options.activity_sigma);
  const double of_sensitivity = wrong(options.slowdown_sigma);
  const double of_pressure = wrong(options.slowdown_sigma);
  const double of_duration = wrong(options.duration_sigma);
  core::Profile profile;
  const double fastest_here = nodes_[job.node].fastest;
  // Without summaries the catalogue takes their place.
  profile.grain = core::GrainOf(workload.traits);
  if (appraisals_) profile = appraisals_->ProfileOf(workload);
  // The known time is that on the fastest GPU of all servers.
  if (profile.alone) profile.alone = LongerBy(*profile.alone, fastest_ / fastest_here);
  if (options.durations) {
    const base::Duration solo(std::llround(job.solo_s * of_duration * 1000));
    profile.alone = LongerBy(solo, 1 / fastest_here);
  }
  if (options.profiles == EstimateOptions::Profiles::kNone) return profile;
  profile.sm_active = std::min(1.0, workload.sm_active.front() * of_activity);
  core::MpsParameters mps{workload.mps_sensitivity, workload.mps_pressure};
  if (options.profiles == EstimateOptions::Profiles::kActivity)
    mps = core::GuessMps(*profile.sm_active, workload.traits);
  profile.mps = {.sensitivity = mps.sensitivity * of_sensitivity,
                 .pressure = mps.pressure * of_pressure};
  return profile;
}

// A workload counts as one user's program (appraisals.h), so its tasks are of one kind.
core::EstimateReady Simulation::EstimateFor(const Job& job) {
  const std::optional<core::Estimate> estimate =
      job.raised_mib ? core::Estimate{*job.raised_mib, "raised"} : EstimateOf(job);
  return {job.id, estimate, estimate::KindOf(job.arrival->workload->id), PredictedProfile(job)};
}

void Simulation::Learn(const core::TaskRecord& record) {
  Job& job = jobs_[job_of_.at(core::Number(record.id))];
  if (!std::exchange(job.untaught, false)) return;
  const Node& node = nodes_[job.node];
  std::vector<core::GpuIndex> its;
  for (const std::uint32_t gpu : job.gpus) {
    if (gpu - node.first_gpu < node.gpu_count) its.push_back(core::GpuIndex{gpu - node.first_gpu});
  }
  appraisals_->Learn(*job.arrival->workload, record,
                     estimate::RanOnOf(its, node.core.scheduler().GpuInfos()), now_ - job.launched,
                     now_);
}

}  // namespace carma::sim

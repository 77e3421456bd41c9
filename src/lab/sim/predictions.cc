// The predictions of the simulated estimators, with their errors.
#include "lab/sim/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "estimate/signature.h"

namespace carma::sim {
namespace {

constexpr std::string_view kFromHistory = "history";

// The task as a user might submit it: a program named after the workload, with the settings from
// the catalogue.
task::TaskSpec SpecOf(const trace::Workload& workload) {
  task::TaskSpec spec;
  spec.name = workload.id;
  spec.command = {workload.id};
  spec.workdir = "/";
  spec.gpus = workload.gpus;
  spec.batch_size = workload.traits.batch_size;
  if (!workload.optimizer.empty()) spec.optimizer = workload.optimizer;
  return spec;
}

// True if an estimate is a measured peak rather than a prediction.
bool IsMeasured(const core::Estimate& estimate) {
  return estimate.method == kFromHistory || estimate.method == "prior";
}

base::Duration LongerBy(base::Duration span, double times) {
  return base::Duration(std::llround(static_cast<double>(span.count()) * times));
}

}  // namespace

Predictions::Predictions(const RunOptions& options, const Layout& layout)
    : options_(options), layout_(layout) {
  if (options.estimates.method.empty()) return;
  std::vector<core::GpuInfo> gpus;
  for (std::uint32_t i = 0; i < layout.servers().size(); ++i)
    std::ranges::move(layout.InfosOf(i), std::back_inserter(gpus));
  estimate::AppraisalRules rules{.method = options.estimates.method,
                                 .coverage = options.estimates.coverage};
  if (options.estimates.learns) rules.history = history_;
  estimate::SuitGpus(rules, gpus);
  appraiser_.emplace(std::move(rules));
  if (!options.estimates.taught) return;
  for (const task::Observation& each : *options.estimates.taught) history_->Add(each);
}

Predictions::Known& Predictions::Find(const trace::Workload& workload, std::uint32_t uid) {
  const auto [at, is_new] = known_.try_emplace({uid, &workload});
  Known& known = at->second;
  if (!is_new) return known;
  known.spec = SpecOf(workload);
  known.summary = &no_summary_;
  const Summaries* summaries = options_.estimates.summaries.get();
  if (summaries == nullptr) return known;
  if (const auto named = summaries->find(workload.id); named != summaries->end())
    known.summary = &named->second;
  return known;
}

const estimate::Appraisal& Predictions::Appraised(const trace::Workload& workload,
                                                  std::uint32_t uid) {
  Known& known = Find(workload, uid);
  const std::optional<core::Estimate>& estimate = known.appraisal.estimate;
  // An estimate from the program's own runs changes only with new runs. Any other estimate may also
  // change with the calibration.
  const bool holds = !known.stale && (known.asked_after == lessons_ ||
                                      (estimate && estimate->method == kFromHistory));
  if (holds) return known.appraisal;
  known.appraisal = appraiser_->Appraise(known.spec, uid, *known.summary,
                                         known.asked ? &known.appraisal : nullptr);
  known.asked = true;
  known.asked_after = lessons_;
  known.stale = false;
  return known.appraisal;
}

std::optional<core::Estimate> Predictions::Unchanged(const Job& job) {
  if (appraiser_) return Appraised(job.workload(), job.uid).estimate;
  const trace::MemoryEstimate told = trace::Estimate(job.workload(), options_.estimates.source);
  // The original system has no exclusive tasks, so a task without an estimate requests all of a
  // GPU's memory.
  const bool asks_for_all = told.whole_gpu && options_.policy.pacing != core::Pacing::kImmediate;
  const std::optional<std::int64_t> mib = asks_for_all ? layout_.largest_mib() : told.mib;
  if (!mib) return std::nullopt;
  return core::Estimate{*mib, "simulated"};
}

std::optional<core::Estimate> Predictions::EstimateOf(const Job& job) {
  const EstimateOptions& options = options_.estimates;
  std::optional<core::Estimate> estimate = Unchanged(job);
  base::Rng rng = Chance(options_.seed, Draw::kEstimate, core::Number(job.id));
  if (rng.Uniform() < options.missing_share) return std::nullopt;
  const bool errs = options.bias != 0 || options.sigma > 0;
  if (!estimate || !errs || IsMeasured(*estimate)) return estimate;
  const double factor = std::exp(options.bias + options.sigma * rng.Normal());
  const auto scaled = [&](std::int64_t mib) {
    const auto wrong_mib = std::llround(static_cast<double>(mib) * factor);
    return std::clamp<std::int64_t>(wrong_mib, 1, layout_.largest_mib());
  };
  estimate->peak_mib = scaled(estimate->peak_mib);
  if (estimate->predicted_mib) estimate->predicted_mib = scaled(*estimate->predicted_mib);
  return estimate;
}

core::Profile Predictions::ProfileOf(const Job& job) {
  const EstimateOptions& options = options_.estimates;
  const trace::Workload& workload = job.workload();
  base::Rng rng = Chance(options_.seed, Draw::kProfile, core::Number(job.id));
  const auto wrong = [&rng](double sigma) { return std::exp(sigma * rng.Normal()); };
  const double of_activity = wrong(options.activity_sigma);
  const double of_sensitivity = wrong(options.slowdown_sigma);
  const double of_pressure = wrong(options.slowdown_sigma);
  const double of_duration = wrong(options.duration_sigma);
  core::Profile profile;
  const double fastest_here = layout_.servers()[job.node].fastest;
  // Without an estimator, the kernel size (grain) comes from the catalogue.
  profile.grain = core::GrainOf(workload.traits);
  if (appraiser_) profile = Appraised(workload, job.uid).profile;
  // The known run time applies to the fastest GPU in the cluster.
  if (profile.alone) profile.alone = LongerBy(*profile.alone, layout_.fastest() / fastest_here);
  if (options.durations) {
    const base::Duration solo(std::llround(job.work.solo_s() * of_duration * 1000));
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

// A user's tasks with the same workload count as runs of one program, so they get the same kind.
core::EstimateReady Predictions::AnswerFor(const Job& job) {
  const std::optional<core::Estimate> estimate =
      job.above.raised_mib ? core::Estimate{*job.above.raised_mib, "raised"} : EstimateOf(job);
  const std::string& program = job.workload().id;
  const std::string kind = job.uid == 0 ? program : fmt::format("{}-{}", job.uid, program);
  return {job.id, estimate, estimate::KindOf(kind), ProfileOf(job)};
}

void Predictions::Learn(const Job& job, const core::TaskRecord& record, base::Time now) {
  const base::Duration watched = now - job.attempt.launched;
  if (!appraiser_ || !options_.estimates.learns || !estimate::Teaches(record, watched)) return;
  const Layout::Server& server = layout_.servers()[job.node];
  std::vector<core::GpuIndex> its;
  for (const std::uint32_t gpu : job.attempt.gpus) {
    if (layout_.ServerOf(gpu) == job.node) its.push_back(core::GpuIndex{gpu - server.first_gpu});
  }
  Known& known = Find(job.workload(), record.request->uid);
  history_->Add(estimate::LessonOf(record, known.spec,
                                   estimate::RanOnOf(its, layout_.InfosOf(job.node)),
                                   known.appraisal.model, known.appraisal.formula, now));
  known.stale = true;
  ++lessons_;
}

}  // namespace carma::sim

#include "lab/sim/appraisals.h"

namespace carma::sim {
namespace {

constexpr std::string_view kFromHistory = "history";

estimate::AppraisalRules RulesOf(const EstimateOptions& options,
                                 std::span<const core::GpuInfo> gpus,
                                 std::shared_ptr<const estimate::History> history) {
  estimate::AppraisalRules rules;
  rules.method = options.method;
  rules.coverage = options.coverage;
  if (options.learns) rules.history = std::move(history);
  estimate::SuitGpus(rules, gpus);
  return rules;
}

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

}  // namespace

Appraisals::Appraisals(const EstimateOptions& options, std::span<const core::GpuInfo> gpus)
    : options_(options), appraiser_(RulesOf(options, gpus, history_)) {
  if (!options.taught) return;
  for (const task::Observation& each : *options.taught) history_->Add(each);
}

Appraisals::Known& Appraisals::Find(const trace::Workload& workload, std::uint32_t uid) {
  const auto [at, is_new] = known_.try_emplace({uid, &workload});
  Known& known = at->second;
  if (!is_new) return known;
  known.spec = SpecOf(workload);
  known.summary = &no_summary_;
  if (!options_.summaries) return known;
  if (const auto named = options_.summaries->find(workload.id); named != options_.summaries->end())
    known.summary = &named->second;
  return known;
}

const core::Profile& Appraisals::ProfileOf(const trace::Workload& workload, std::uint32_t uid) {
  Of(workload, uid);
  return Find(workload, uid).appraisal.profile;
}

const std::optional<core::Estimate>& Appraisals::Of(const trace::Workload& workload,
                                                    std::uint32_t uid) {
  Known& known = Find(workload, uid);
  std::optional<core::Estimate>& estimate = known.appraisal.estimate;
  // An estimate from the program's own runs changes only with new runs. Any other estimate may also
  // change with the calibration.
  const bool holds = !known.stale && (known.asked_after == lessons_ ||
                                      (estimate && estimate->method == kFromHistory));
  if (holds) return estimate;
  known.appraisal = appraiser_.Appraise(known.spec, uid, *known.summary,
                                        known.asked ? &known.appraisal : nullptr);
  known.asked = true;
  known.asked_after = lessons_;
  known.stale = false;
  return estimate;
}

void Appraisals::Learn(const trace::Workload& workload, const core::TaskRecord& record,
                       const estimate::RanOn& where, base::Duration watched, base::Time now) {
  if (!options_.learns || !estimate::Teaches(record, watched)) return;
  Known& known = Find(workload, record.request->uid);
  history_->Add(estimate::LessonOf(record, known.spec, where, known.appraisal.model,
                                   known.appraisal.formula, now));
  known.stale = true;
  ++lessons_;
}

bool IsMeasured(const core::Estimate& estimate) {
  return estimate.method == kFromHistory || estimate.method == "prior";
}

}  // namespace carma::sim

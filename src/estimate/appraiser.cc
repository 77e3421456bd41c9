#include "estimate/appraiser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "core/values/pace.h"
#include "estimate/activity_guess.h"
#include "estimate/signature.h"

namespace carma::estimate {
namespace {

std::unique_ptr<Estimator> Make(const std::string& name) {
  const EstimatorEntry* entry = FindEstimator(name);
  CARMA_CHECK(entry != nullptr, "the configuration names an estimator that does not exist");
  return entry->make();
}

}  // namespace

void SuitGpus(AppraisalRules& rules, std::span<const core::GpuInfo> gpus) {
  std::map<std::string, int> types;
  const std::vector<double> paces = core::PacesOf(gpus);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const core::GpuInfo& gpu = gpus[i];
    ++types[gpu.type];
    rules.paces[gpu.type] = paces[i];
    rules.gpu_mib = std::max(rules.gpu_mib, gpu.UsableMib());
  }
  for (const auto& [type, count] : types) {
    if (rules.gpu_type.empty() || count > types[rules.gpu_type]) rules.gpu_type = type;
  }
}

Appraiser::Appraiser(AppraisalRules rules)
    : rules_(std::move(rules)),
      given_(MakeGiven()),
      method_(Make(rules_.method)),
      structural_(MakeStructural()) {}

Result<Answer> Appraiser::Ask(const Question& question) const {
  Result<Answer> given = given_->Ask(question);
  if (given && rules_.prefer_given) return given;
  Result<Answer> answer = method_->Ask(question);
  return answer || !given ? std::move(answer) : std::move(given);
}

Appraisal Appraiser::Appraise(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                              const Appraisal* earlier) const {
  Appraisal result;
  result.model = summary.fingerprint;
  std::vector<std::string>& remarks = result.remarks;
  Question question = QuestionOf(spec, uid, summary, remarks);
  if (summary.transformer || question.share > 0) {
    if (std::string found = FoundText(spec); !found.empty()) remarks.push_back(std::move(found));
  }
  result.kind = KindOf(question.signature);
  question.gpu_type = rules_.gpu_type;
  question.gpu_mib = rules_.gpu_mib;
  if (rules_.coverage > 0) question.coverage = rules_.coverage;
  question.history = rules_.history.get();
  if (rules_.history) {
    result.profile =
        ProfileFrom(rules_.history->OfSignature(question.signature), rules_.gpu_type, rules_.paces);
  }
  if (rules_.measured) {
    result.profile =
        WithMeasured(result.profile, *rules_.measured, question.signature, rules_.gpu_type);
  }
  if (summary.layers) result.profile.grain = GrainOf(*summary.layers, question.batch);
  Site site;
  if (rules_.history && (question.layers != nullptr || question.transformer != nullptr))
    site = rules_.history->SiteFor(rules_.gpu_type);
  question.site = &site;
  result.formula = earlier != nullptr ? earlier->formula : SplitFormula(*structural_, question);

  Result<Answer> answer = Ask(question);
  if (!answer) {
    // Without a summary, the warning would not help the user.
    if (spec.model_summary) remarks.push_back("no estimate: " + answer.error().message);
    return result;
  }
  const bool stated = question.given_mib && answer->method == question.given_source;
  const std::int64_t cap_mib = stated ? 0 : rules_.gpu_mib;
  core::Estimate& estimate = result.estimate.emplace();
  estimate.peak_mib = PromiseOf(*answer, rules_.coverage, cap_mib);
  estimate.method = answer->method;
  if (!stated) estimate.predicted_mib = answer->point_mib;
  if (answer->needed_mib) {
    remarks.push_back(fmt::format(
        "{} MiB of the estimate is for tensors; the rest is the CUDA context and fragmentation",
        *answer->needed_mib));
  }
  std::move(answer->warnings.begin(), answer->warnings.end(), std::back_inserter(remarks));
  if (stated && !summary.trouble.empty()) remarks.push_back(summary.trouble);
  return result;
}

}  // namespace carma::estimate

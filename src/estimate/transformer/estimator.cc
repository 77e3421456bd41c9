// Wraps the closed form for transformers as an estimator.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"
#include "estimate/calibration.h"
#include "estimate/estimator.h"
#include "estimate/history.h"
#include "estimate/loaded_code.h"
#include "estimate/transformer/peak.h"

namespace carma::estimate {
namespace {

// The terms add up to the memory that nvidia-smi reports.
std::vector<Term> TermsOf(const TransformerEstimate& estimate) {
  const MemoryParts& parts = estimate.parts;
  std::vector<Term> terms{{std::string(kContextTerm), estimate.context_mib},
                          {"weights", parts.weights},
                          {"gradients", parts.gradients},
                          {"optimizer", parts.optimizer},
                          {"logits", parts.logits},
                          {"activations", parts.activations},
                          {"working copies", parts.working},
                          {std::string(kFragmentationTerm), estimate.fragmentation_mib}};
  if (parts.beside > 0) terms.push_back({"other models", parts.beside});
  return terms;
}

// Replaces the shipped context with the context measured in finished tasks on this server.
void SuitSite(const Site& site, TransformerEstimate& estimate) {
  const double shipped_mib = ShippedMib({Loading::kLazy, Libraries::kSequences});
  const double shift_mib = site.ContextMib(shipped_mib) - shipped_mib;
  estimate.context_mib += shift_mib;
  estimate.shown.point_mib += std::llround(shift_mib);
  estimate.shown.bound_mib += std::llround(shift_mib);
}

constexpr std::string_view kLengthUnknown = "sequence length unknown";

// Takes the sample length from the user's last run of the same program.
void TakeLength(const Question& question, TrainingPlan& plan, std::vector<std::string>& assumed) {
  if (question.history == nullptr || question.kin.empty()) return;
  for (const task::Observation& run : question.history->OfKin(question.kin)) {
    if (run.length.value_or(0) < 1) continue;
    std::erase_if(assumed,
                  [](const std::string& each) { return each.starts_with(kLengthUnknown); });
    assumed.insert(
        assumed.begin(),
        fmt::format("{}: {} tokens assumed, as in the last run of this program (--seq-len)",
                    kLengthUnknown, *run.length));
    plan.sequence = *run.length;
    return;
  }
}

// Extends the warning about the assumed sequence length with the memory needed for a quarter of
// that length.
void AddShorter(const Question& question, TrainingPlan plan, const TransformerEstimate& estimate,
                std::vector<std::string>& warnings) {
  constexpr std::int64_t kShare = 4;
  if (plan.sequence < kShare) return;
  plan.sequence /= kShare;
  const Result<TransformerEstimate> shorter =
      EstimateTransformer(*question.transformer, plan, question.coverage);
  if (!shorter) return;
  const auto assumed = std::ranges::find_if(
      warnings, [](const std::string& each) { return each.starts_with(kLengthUnknown); });
  if (assumed == warnings.end()) return;
  *assumed += fmt::format("; with {} tokens the task would need {} instead of {}", plan.sequence,
                          base::FormatMib(shorter->shown.point_mib),
                          base::FormatMib(estimate.shown.point_mib));
}

class Transformer : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (question.transformer == nullptr || !question.plan) {
      return NotFound(question.summary_trouble.empty() ? "there is no transformer config.json"
                                                       : question.summary_trouble);
    }
    TrainingPlan plan = *question.plan;
    std::vector<std::string> assumed = question.assumed;
    if (question.assumes_length) TakeLength(question, plan, assumed);
    if (question.gpu_mib > 0) plan.gpu_mib = static_cast<double>(question.gpu_mib);
    Result<TransformerEstimate> estimate =
        EstimateTransformer(*question.transformer, plan, question.coverage);
    if (!estimate) return NotFound(estimate.error().message);
    if (question.site != nullptr) SuitSite(*question.site, *estimate);
    Answer answer;
    answer.method = "transformer";
    answer.point_mib = estimate->shown.point_mib;
    answer.bound_mib = estimate->shown.bound_mib;
    answer.needed_mib = estimate->needed.point_mib;
    answer.coverage = estimate->coverage;
    answer.terms = TermsOf(*estimate);
    answer.warnings = std::move(assumed);
    if (plan.sequence == question.plan->sequence && question.assumes_length)
      AddShorter(question, plan, *estimate, answer.warnings);
    for (std::string& warning : estimate->warnings) answer.warnings.push_back(std::move(warning));
    if (question.site != nullptr) {
      if (std::string remark = question.site->Remark(); !remark.empty())
        answer.warnings.push_back(std::move(remark));
    }
    return answer;
  }
};

}  // namespace

std::unique_ptr<Estimator> MakeTransformer() {
  return std::make_unique<Transformer>();
}

}  // namespace carma::estimate

// The order in which the methods are trusted, and the last resort of a task that nothing is known
// of.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "estimate/estimator.h"
#include "estimate/gpumemnet.h"
#include "estimate/history.h"

namespace carma::estimate {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// The same user's same program with other settings. A wide net: only where nothing better is known.
class ClassPrior {
 public:
  static constexpr std::size_t kLeastRuns = 3;

  static Result<Answer> Ask(const Question& question) {
    if (question.history == nullptr || question.kin.empty())
      return Fail(ErrorCode::kNotFound, "no earlier runs of the program are known");
    std::vector<std::int64_t> peaks_mib;
    for (const task::Observation& run : question.history->OfKin(question.kin)) {
      if (!run.ran_out) peaks_mib.push_back(run.measured_mib);
    }
    if (peaks_mib.size() < kLeastRuns) {
      return Fail(ErrorCode::kNotFound, "fewer than " + std::to_string(kLeastRuns) +
                                            " earlier runs of the program are known");
    }
    std::sort(peaks_mib.begin(), peaks_mib.end());
    Answer answer;
    answer.method = "prior";
    answer.point_mib = peaks_mib[peaks_mib.size() * 3 / 4];
    answer.bound_mib = std::max(answer.point_mib, peaks_mib.back());
    // The highest of n covers n/(n + 1) of what comes, if it is of the same kind.
    answer.coverage =
        static_cast<double>(peaks_mib.size()) / static_cast<double>(peaks_mib.size() + 1);
    answer.warnings.push_back(
        fmt::format("no summary and no earlier run: taken from {} runs of the same program with "
                    "other settings, {} to {} MiB",
                    peaks_mib.size(), peaks_mib.front(), peaks_mib.back()));
    return answer;
  }
};

// Networks with widths that change at every layer are what the formula knows least of and a
// classifier that was trained on such knows better (docs/estimators.md): its class bounds the
// formula's answer, which is finer within it.
void KeepWithinClass(const Question& question, Answer& answer) {
  // Of the bound over the point, besides: from 1151 runs, so that 95 of 100 are covered.
  constexpr double kWider = 1.03;
  const std::optional<AlikeClass> alike = ClassAmongAlike(question);
  if (!alike || answer.point_mib < 1) return;
  const std::int64_t before_mib = answer.point_mib;
  std::int64_t point_mib = std::max(before_mib, alike->low_mib);
  if (alike->high_mib) point_mib = std::min(point_mib, *alike->high_mib - 1);
  const double factor =
      kWider * static_cast<double>(answer.bound_mib) / static_cast<double>(before_mib);
  answer.bound_mib = std::max<std::int64_t>(answer.bound_mib,
                                            std::llround(factor * static_cast<double>(point_mib)));
  answer.point_mib = point_mib;
  if (point_mib == before_mib) return;
  answer.terms.push_back({"class of networks alike", static_cast<double>(point_mib - before_mib)});
  answer.warnings.push_back(
      fmt::format("networks like this one need {} to {} MiB by what gpumemnet-transformer learned",
                  alike->low_mib, alike->high_mib.value_or(point_mib)));
}

// Runs of the same user's same program with other settings, reckoned in closed form before they
// ran: what they needed of it, the next one will about need of its own. One such run moves half of
// the way, three move three quarters.
void FollowRelatives(const Question& question, Answer& answer) {
  constexpr double kMostCorrection = 1.6;
  constexpr double kLeastAllowance = 1.03;
  if (question.history == nullptr || question.kin.empty()) return;
  std::vector<double> ratios;
  for (const task::Observation& run : question.history->OfKin(question.kin)) {
    if (run.ran_out || run.method != answer.method || run.predicted_mib.value_or(0) <= 0) continue;
    ratios.push_back(static_cast<double>(run.measured_mib) /
                     static_cast<double>(*run.predicted_mib));
  }
  if (ratios.empty()) return;
  std::sort(ratios.begin(), ratios.end());
  const double median = std::clamp(ratios[ratios.size() / 2], 1 / kMostCorrection, kMostCorrection);
  const auto count = static_cast<double>(ratios.size());
  const double factor = std::pow(median, count / (count + 1));
  const auto point_mib = static_cast<double>(answer.point_mib);
  const double highest = std::min(ratios.back(), kMostCorrection) * kLeastAllowance * point_mib;
  answer.bound_mib =
      std::llround(std::max(factor * static_cast<double>(answer.bound_mib), highest));
  answer.point_mib = std::llround(factor * point_mib);
  answer.terms.push_back({"as relatives needed", (factor - 1) * point_mib});
  answer.method = "relatives";
  answer.warnings.push_back(fmt::format(
      "{} run{} of the same program with other settings needed {:.2f} of what was reckoned",
      ratios.size(), ratios.size() == 1 ? "" : "s", median));
}

class Auto : public Estimator {
 public:
  std::string_view name() const override { return "auto"; }
  Result<Answer> Ask(const Question& question) const override {
    Result<Answer> known = history_->Ask(question);
    if (known) return known;
    const bool closed_form = question.transformer != nullptr;
    Result<Answer> reckoned = (closed_form ? transformer_ : structural_)->Ask(question);
    if (reckoned) {
      if (closed_form) {
        FollowRelatives(question, *reckoned);
      } else {
        KeepWithinClass(question, *reckoned);
      }
      return reckoned;
    }
    Result<Answer> prior = ClassPrior::Ask(question);
    if (prior) {
      if (!question.summary_trouble.empty()) prior->warnings.push_back(question.summary_trouble);
      return prior;
    }
    const std::string& summary =
        question.summary_trouble.empty() ? reckoned.error().message : question.summary_trouble;
    return Fail(ErrorCode::kNotFound, summary + "; " + known.error().message);
  }

 private:
  std::unique_ptr<Estimator> history_ = MakeFromHistory();
  std::unique_ptr<Estimator> structural_ = MakeStructural();
  std::unique_ptr<Estimator> transformer_ = MakeTransformer();
};

}  // namespace

std::unique_ptr<Estimator> MakeAuto() {
  return std::make_unique<Auto>();
}

}  // namespace carma::estimate

// The estimator "auto": tries the methods from most to least trusted. The last resort is earlier
// runs of the same program.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "estimate/amounts.h"
#include "estimate/calibration.h"
#include "estimate/estimator.h"
#include "estimate/gpumemnet.h"
#include "estimate/history.h"

namespace carma::estimate {
namespace {

// Estimates from the same user's runs of the same program with different settings. Such runs can
// differ widely, so this is the last resort.
class ClassPrior {
 public:
  static constexpr std::size_t kLeastRuns = 3;

  static Result<Answer> Ask(const Question& question) {
    if (question.history == nullptr || question.kin.empty())
      return NotFound("there are no earlier runs of this program");
    std::vector<std::int64_t> peaks_mib;
    for (const task::Observation& run : question.history->OfKin(question.kin)) {
      if (!run.ran_out) peaks_mib.push_back(run.measured_mib);
    }
    if (peaks_mib.size() < kLeastRuns) {
      return NotFound("there are fewer than " + std::to_string(kLeastRuns) +
                      " earlier runs of this program");
    }
    std::ranges::sort(peaks_mib);
    Answer answer;
    answer.method = "prior";
    answer.point_mib = peaks_mib[peaks_mib.size() * 3 / 4];
    answer.bound_mib = std::max(answer.point_mib, peaks_mib.back());
    // The highest of n values covers n/(n + 1) of all future values from the same distribution.
    answer.coverage =
        static_cast<double>(peaks_mib.size()) / static_cast<double>(peaks_mib.size() + 1);
    answer.warnings.push_back(fmt::format(
        "there is no usable summary and no earlier run with these settings, so the estimate "
        "is based on {} runs of the same program with other settings ({} to {} MiB)",
        peaks_mib.size(), peaks_mib.front(), peaks_mib.back()));
    return answer;
  }
};

// Predicts from runs of the same training job with different sample lengths, different batch sizes,
// or both.
class OfAmounts {
 public:
  explicit OfAmounts(const Question& question) : question_(question) {
    if (question.history == nullptr || question.kin.empty() || question.relation.empty()) return;
    for (task::Observation& run : question.history->OfKin(question.kin)) {
      if (run.relation == question.relation) runs_.push_back(std::move(run));
    }
    own_type_ = std::ranges::any_of(
        runs_, [&](const auto& run) { return run.gpu_type == question.gpu_type; });
  }

  Result<Answer> Ask() const {
    const Amounts& asked = question_.amounts;
    const auto as_long = [&](const auto& run) { return run.length == asked.length; };
    const auto as_many = [&](const auto& run) { return run.batch == asked.batch; };
    std::optional<Interpolation> found = Along(as_long, asked.batch, &task::Observation::batch);
    if (!found) found = Along(as_many, asked.length, &task::Observation::length);
    if (!found && asked.batch && asked.length) found = AlongTokens();
    if (!found)
      return NotFound(
          "this training job has not run here with two different batch sizes or lengths");
    return AnswerOf(*found);
  }

 private:
  template <class Chosen>
  std::optional<Interpolation> Along(const Chosen& chosen, const std::optional<std::int64_t>& asked,
                                     std::optional<std::int64_t> task::Observation::*amount) const {
    if (!asked) return std::nullopt;
    std::vector<Sighting> seen;
    for (const task::Observation& run : runs_) {
      if (chosen(run) && run.*amount) Add(run, static_cast<double>(*(run.*amount)), seen);
    }
    return Interpolate(seen, static_cast<double>(*asked));
  }

  std::optional<Interpolation> AlongTokens() const {
    const auto tokens = [](std::int64_t batch, std::int64_t length) {
      return static_cast<double>(batch) * static_cast<double>(length);
    };
    std::vector<Sighting> seen;
    for (const task::Observation& run : runs_) {
      if (run.batch && run.length) Add(run, tokens(*run.batch, *run.length), seen);
    }
    return Interpolate(seen, tokens(*question_.amounts.batch, *question_.amounts.length));
  }

  // Runs on another GPU type are used only if there are none on this type. A sample needs the same
  // memory on every type; only the size of the CUDA context differs (docs/evidence/estimators.md).
  void Add(const task::Observation& run, double amount, std::vector<Sighting>& seen) const {
    if (own_type_ && run.gpu_type != question_.gpu_type) return;
    const double shift_mib = own_type_ ? 0 : ContextShift(run.gpu_type, question_.gpu_type);
    seen.push_back({amount, run.measured_mib + std::llround(shift_mib), run.ran_out});
  }

  // How much larger the CUDA context is on type `to` than on type `from`. 0 if either context is
  // unknown.
  double ContextShift(const std::string& from, const std::string& to) const {
    const Site there = question_.history->SiteFor(from);
    const Site here = question_.history->SiteFor(to);
    if (there.taught_by != from || here.taught_by != to) return 0;
    return here.context_shift_mib - there.context_shift_mib;
  }

  Answer AnswerOf(const Interpolation& found) const {
    Answer answer;
    answer.method = "amounts";
    answer.point_mib = found.point_mib;
    answer.bound_mib = found.bound_mib;
    answer.coverage = kCoverage;
    answer.terms.push_back(
        {fmt::format("line through {} runs", found.runs), static_cast<double>(found.point_mib)});
    answer.warnings.push_back(
        fmt::format("{} {} runs of the same training job with other batch sizes or lengths",
                    found.between ? "interpolated from" : "extrapolated from", found.runs));
    if (!own_type_ && !runs_.empty()) {
      answer.warnings.push_back(
          fmt::format("measurements from {} were applied to {}", runs_.front().gpu_type,
                      question_.gpu_type.empty() ? "another GPU" : question_.gpu_type));
    }
    return answer;
  }

  static constexpr double kCoverage = 0.95;

  const Question& question_;
  std::vector<task::Observation> runs_;  // newest first
  bool own_type_ = false;
};

// An inference engine such as vLLM reserves its share when it starts, whatever its model needs. The
// task's GPU is not chosen yet, so this is the share of the largest one. The CUDA context and CUDA
// graphs are outside the share: up to 1.6 GiB on an H100 (config_explorer/
// empirical-vllm-memory-results.md in github.com/llm-d/llm-d-benchmark).
Result<Answer> AskShare(const Question& question) {
  constexpr std::int64_t kOutsideMib = 1640;
  if (question.gpu_mib == 0)
    return NotFound(
        "the engine reserves a share of GPU memory, but its total is unknown (--gpu-memory)");
  Answer answer;
  answer.method = "share";
  answer.point_mib = std::llround(question.share * static_cast<double>(question.gpu_mib));
  answer.bound_mib = answer.point_mib + kOutsideMib;
  answer.warnings.push_back(
      fmt::format("an inference engine reserves {:g} of the GPU's memory, whatever its model "
                  "needs; the largest "
                  "GPU is assumed",
                  question.share));
  return answer;
}

// Keeps the formula's answer within the memory class that a classifier predicts. The formula is
// least accurate for networks whose width changes at every layer, and the classifier was trained on
// such networks (docs/evidence/estimators.md). Within the class, the formula is more precise.
void KeepWithinClass(const Question& question, Answer& answer) {
  // The factor by which the bound is widened. Fitted so that the bound covers 95 % of 1151 runs.
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
  answer.terms.push_back(
      {"class of similar networks", static_cast<double>(point_mib - before_mib)});
  answer.warnings.push_back(
      fmt::format("networks like this one need {} to {} MiB according to gpumemnet-transformer",
                  alike->low_mib, alike->high_mib.value_or(point_mib)));
}

// Corrects the answer by the ratio of measured to predicted memory in this user's earlier runs of
// the program with different settings. Only runs predicted by the same method count. One run moves
// the answer halfway, and three runs move it three quarters of the way. Returns false if there is
// no such run.
bool FollowRelatives(const Question& question, Answer& answer) {
  constexpr double kMostCorrection = 1.6;
  constexpr double kLeastAllowance = 1.03;
  if (question.history == nullptr || question.kin.empty()) return false;
  std::vector<double> ratios;
  for (const task::Observation& run : question.history->OfKin(question.kin)) {
    if (run.ran_out || run.method != answer.method || run.predicted_mib.value_or(0) <= 0) continue;
    ratios.push_back(static_cast<double>(run.measured_mib) /
                     static_cast<double>(*run.predicted_mib));
  }
  if (ratios.empty()) return false;
  std::ranges::sort(ratios);
  const double median = std::clamp(ratios[ratios.size() / 2], 1 / kMostCorrection, kMostCorrection);
  const auto count = static_cast<double>(ratios.size());
  const double factor = std::pow(median, count / (count + 1));
  const auto point_mib = static_cast<double>(answer.point_mib);
  const double highest = std::min(ratios.back(), kMostCorrection) * kLeastAllowance * point_mib;
  answer.bound_mib =
      std::llround(std::max(factor * static_cast<double>(answer.bound_mib), highest));
  answer.point_mib = std::llround(factor * point_mib);
  if (answer.needed_mib)
    answer.needed_mib = std::llround(factor * static_cast<double>(*answer.needed_mib));
  answer.terms.push_back({"correction from relatives", (factor - 1) * point_mib});
  answer.method = "relatives";
  answer.warnings.push_back(
      fmt::format("{} of the same program with other settings needed {:.2f} times the prediction",
                  base::Counted(std::ssize(ratios), "run"), median));
  return true;
}

double* TermOf(Answer& answer, std::string_view name) {
  const auto found = std::ranges::find(answer.terms, name, &Term::name);
  return found == answer.terms.end() ? nullptr : &found->mib;
}

// Fragmentation in earlier runs, in ascending order: memory that PyTorch's allocator reserved but
// had not allocated, as a share of the allocated memory. Uses all runs of this program by the same
// user that reported their allocated memory, including those that ran out of memory.
std::vector<double> GapsOf(const Question& question, double context_mib) {
  std::vector<double> gaps;
  if (question.history == nullptr || question.kin.empty()) return gaps;
  for (const task::Observation& run : question.history->OfKin(question.kin)) {
    if (run.allocated_mib.value_or(0) <= 0) continue;
    const double shown_mib = static_cast<double>(run.measured_mib) - context_mib;
    gaps.push_back(std::max(0.0, shown_mib / static_cast<double>(*run.allocated_mib) - 1));
  }
  std::ranges::sort(gaps);
  return gaps;
}

// Mixes the measured fragmentation share with the built-in share. The weight of the measured share
// is 1/2 after one run and 3/4 after three runs.
void LearnGaps(const Question& question, Answer& answer) {
  const double* const context_mib = TermOf(answer, kContextTerm);
  double* const gaps_mib = TermOf(answer, kFragmentationTerm);
  if (context_mib == nullptr || gaps_mib == nullptr || !answer.needed_mib) return;
  const std::vector<double> gaps = GapsOf(question, *context_mib);
  if (gaps.empty()) return;
  const auto needed_mib = static_cast<double>(*answer.needed_mib);
  const double median = std::min(gaps[gaps.size() / 2], 1.5);
  const auto count = static_cast<double>(gaps.size());
  const double more_mib = count / (count + 1) * (median * needed_mib - *gaps_mib);
  *gaps_mib += more_mib;
  answer.point_mib += std::llround(more_mib);
  const double highest = std::min(gaps.back(), 1.5) * needed_mib - *gaps_mib;
  answer.bound_mib = std::max(answer.bound_mib + std::llround(more_mib),
                              answer.point_mib + std::llround(std::max(0.0, highest)));
  answer.warnings.push_back(fmt::format(
      "in {} of the same program, PyTorch reserved {:.2f} times the memory it had allocated",
      base::Counted(std::ssize(gaps), "run"), 1 + median));
}

class Auto : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    Result<Answer> known = history_->Ask(question);
    if (known) return known;
    if (Result<Answer> alike = OfAmounts(question).Ask(); alike) return alike;
    const bool closed_form = question.transformer != nullptr;
    Result<Answer> reckoned = question.share > 0
                                  ? AskShare(question)
                                  : (closed_form ? transformer_ : structural_)->Ask(question);
    if (reckoned) {
      if (closed_form) {
        if (!FollowRelatives(question, *reckoned)) LearnGaps(question, *reckoned);
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
    return NotFound(summary + "; " + known.error().message);
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

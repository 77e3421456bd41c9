#include "estimate/estimator.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"

namespace carma::estimate {
namespace {

class Given : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (!question.given_mib) return NotFound("no memory requirement was specified");
    Answer answer;
    answer.point_mib = answer.bound_mib = *question.given_mib;
    answer.method = question.given_source;
    return answer;
  }
};

// One line per estimator. The daemon uses the first by default.
constexpr EstimatorEntry kEstimators[] = {
    {"auto", "history, else transformer or structural, else earlier runs of the same program",
     &MakeAuto},
    {"structural", "memory computed layer by layer from the model summary", &MakeStructural},
    {"transformer", "formula for training a model described by a config.json", &MakeTransformer},
    {"given", "memory stated by the user or the task file", &MakeGiven},
    {"horus", "published formula: parameters + batch size * (activations + gradients)", &MakeHorus},
    {"faketensor", "parameters plus tensors saved for the backward pass", &MakeFakeTensor},
    {"gpumemnet-mlp", "published classifier that reads layer counts and sizes", &MakeGpuMemNetMlp},
    {"gpumemnet-transformer", "published classifier that reads the sequence of layers",
     &MakeGpuMemNetTransformer},
    {"history", "peaks measured in earlier runs of the same training job", &MakeFromHistory},
};

}  // namespace

double SumOf(std::span<const Term> terms) {
  double sum_mib = 0;
  for (const Term& term : terms) sum_mib += term.mib;
  return sum_mib;
}

std::int64_t RoundMib(double mib) {
  constexpr double kMost = 1e15;
  return std::llround(std::clamp(mib, 0.0, kMost));
}

std::unique_ptr<Estimator> MakeGiven() {
  return std::make_unique<Given>();
}

std::span<const EstimatorEntry> Estimators() {
  return kEstimators;
}

const EstimatorEntry* FindEstimator(std::string_view name) {
  const auto* found = std::ranges::find(kEstimators, name, &EstimatorEntry::name);
  return found == std::end(kEstimators) ? nullptr : found;
}

Result<std::vector<const EstimatorEntry*>> ChosenEstimators(std::string_view names) {
  std::vector<const EstimatorEntry*> chosen;
  std::vector<std::string> known;
  for (const EstimatorEntry& entry : kEstimators) {
    known.emplace_back(entry.name);
    if (names.empty() || names == "all") chosen.push_back(&entry);
  }
  if (!chosen.empty()) return chosen;
  for (const std::string_view name : base::Split(names, ',')) {
    chosen.push_back(FindEstimator(base::ToLower(base::Trim(name))));
    if (chosen.back() == nullptr)
      return Invalid("'{}': expected all, or one or more of {}", base::Printable(name, 40),
                     base::Join(known, ","));
  }
  return chosen;
}

}  // namespace carma::estimate

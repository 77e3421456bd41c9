#include "estimate/estimator.h"

#include <algorithm>
#include <iterator>

namespace carma::estimate {
namespace {

class Given : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (!question.given_mib) return NotFound("no memory need was stated");
    Answer answer;
    answer.point_mib = answer.bound_mib = *question.given_mib;
    answer.method = question.given_source;
    return answer;
  }
};

// One line per estimator. The first is the daemon's default.
constexpr EstimatorEntry kEstimators[] = {
    {"auto", "history, else transformer or structural, else what the same program needed before",
     &MakeAuto},
    {"structural", "memory that the model keeps, computed layer by layer", &MakeStructural},
    {"transformer", "training memory of a config.json's model, by formula", &MakeTransformer},
    {"given", "the need that the user or the task file states", &MakeGiven},
    {"horus", "published formula: parameters and activations, times the batch", &MakeHorus},
    {"faketensor", "parameters and tensors kept for the backward pass", &MakeFakeTensor},
    {"gpumemnet-mlp", "published classifier of layer counts and sizes", &MakeGpuMemNetMlp},
    {"gpumemnet-transformer", "published classifier of the sequence of layers",
     &MakeGpuMemNetTransformer},
    {"history", "measured peaks of earlier runs of the same training", &MakeFromHistory},
};

}  // namespace

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

}  // namespace carma::estimate

// Reproduces the estimate of a dry run with PyTorch's FakeTensor, which counts only parameters and
// the tensors kept for the backward pass.
#include "estimate/estimator.h"
#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/kept.h"

namespace carma::estimate {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

class FakeTensor : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (question.layers == nullptr) return NotFound("there is no model summary");
    const model::LayerList& layers = *question.layers;
    if (!question.batch) return NotFound("the batch size is unknown");
    if (!layers.saved && LacksShapes(layers)) return NotFound("the summary shows no shapes");
    const auto batch = static_cast<double>(*question.batch);
    double kept = 0;
    if (layers.saved) {
      kept = layers.saved->per_sample * batch + layers.saved->constant;
    } else {
      const Kept counted = CountKept(layers);
      kept = counted.per_sample * batch + counted.constant;
    }
    Answer answer;
    answer.method = "faketensor";
    answer.terms = {{"parameters", 4 * static_cast<double>(layers.params) / kMib},
                    {"kept for backward", kept / kMib}};
    answer.point_mib = answer.bound_mib = RoundMib(SumOf(answer.terms));
    answer.warnings.emplace_back(
        layers.saved ? "bytes kept for backward were counted by a dry run"
                     : "bytes kept for backward are estimated by rule, without a dry run");
    return answer;
  }
};

}  // namespace

std::unique_ptr<Estimator> MakeFakeTensor() {
  return std::make_unique<FakeTensor>();
}

}  // namespace carma::estimate

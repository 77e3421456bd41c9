// SM activity of a training that has not run yet, from its model summary.
#include "estimate/activity_guess.h"

#include <algorithm>
#include <cmath>

#include "model/features.h"
#include "model/op.h"

namespace carma::estimate {
namespace {

// u = x^a / (x^a + c^a), with x in multiply-adds per sample: half of the SMs are busy at c. Fitted
// to 17 runs of image networks alone on an A100; for families that were left out, the mean error is
// 0.10.
constexpr double kHalfBusy = 1.0e9;
constexpr double kSteepness = 0.5;
constexpr double kMeanError = 0.10;

// How often each weight is used for one sample.
double UsesOf(const model::Layer& layer, model::Op op) {
  const model::Shape& out = layer.out;
  if (op == model::Op::kConv) {
    double positions = 1;
    for (std::size_t i = 2; i < out.rank(); ++i) positions *= std::abs(static_cast<double>(out[i]));
    return positions;
  }
  const double width = std::abs(static_cast<double>(out.last()));
  return static_cast<double>(out.Elements()) / std::max(1.0, width);
}

}  // namespace

std::optional<double> MultiplyAdds(const model::LayerList& list) {
  if (list.collapsed) return std::nullopt;
  double sum = 0;
  for (const model::Layer& layer : list.layers) {
    const model::Op op = model::OpOf(layer.type);
    if (op != model::Op::kConv && op != model::Op::kLinear) continue;
    if (layer.params == 0 || layer.out.empty()) continue;
    sum += static_cast<double>(layer.params) * UsesOf(layer, op);
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

std::optional<ActivityGuess> GuessActivity(const model::LayerList& list) {
  if (model::Classify(list) != model::Family::kCnn) return std::nullopt;
  const std::optional<double> work = MultiplyAdds(list);
  if (!work) return std::nullopt;
  const double busy = std::pow(*work / kHalfBusy, kSteepness);
  return ActivityGuess{.sm_active = busy / (1 + busy), .mean_error = kMeanError};
}

}  // namespace carma::estimate

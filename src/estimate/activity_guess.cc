#include "estimate/activity_guess.h"

#include <algorithm>
#include <cmath>

#include "core/values/mps_guess.h"
#include "model/features.h"
#include "model/op.h"

namespace carma::estimate {
namespace {

// Activity is u = x^a / (x^a + c^a), where x is the number of multiply-adds per sample, c is
// half_busy and a is steepness. At x = c, half of the SMs are busy.
struct Curve {
  double half_busy = 0;
  double steepness = 0;
  double mean_error = 0;  // in leave-one-family-out cross-validation
};
// Fitted to 17 runs of image networks, each alone on an A100. On 487 generated networks that were
// not used in the fit, the mean error is 0.09.
constexpr Curve kConvolutional{.half_busy = 1.0e9, .steepness = 0.5, .mean_error = 0.10};
// Fitted to 2234 generated networks of linear layers on an A100. Their kernels are short, so they
// fill the SMs with far fewer multiply-adds per sample than convolutional networks do.
constexpr Curve kLinear{.half_busy = 2.4e7, .steepness = 0.75, .mean_error = 0.04};

// How many times one sample uses each weight.
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
  const model::Family family = model::Classify(list);
  if (family == model::Family::kTransformer) return std::nullopt;
  const std::optional<double> work = MultiplyAdds(list);
  if (!work) return std::nullopt;
  const Curve& curve = family == model::Family::kCnn ? kConvolutional : kLinear;
  const double busy = std::pow(*work / curve.half_busy, curve.steepness);
  return ActivityGuess{.sm_active = busy / (1 + busy), .mean_error = curve.mean_error};
}

std::optional<double> GrainOf(const model::LayerList& list, std::optional<std::int64_t> batch) {
  constexpr std::int64_t kLargeBatch = 1 << 20;
  if (list.collapsed || !batch || model::Classify(list) != model::Family::kCnn) return std::nullopt;
  const model::Features features = model::Summarize(list);
  return core::GrainOf({.transformer = false,
                        .batch_size = static_cast<int>(std::min(*batch, kLargeBatch)),
                        .layers = features.conv + features.linear});
}

}  // namespace carma::estimate

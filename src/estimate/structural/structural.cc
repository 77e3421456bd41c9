// The peak of a training step, from the structure of the model: docs/estimators.md has the formula,
// where each constant comes from, and how far off it is.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "estimate/calibration.h"
#include "estimate/estimator.h"
#include "estimate/round_mib.h"
#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/kept.h"
#include "estimate/structural/safety.h"

namespace carma::estimate {
namespace {

using base::ErrorCode;
using base::Fail;

constexpr double kMib = 1024.0 * 1024.0;

// On top of kShippedContextMib: further libraries that a model makes PyTorch load.
constexpr double kConvolutionsMib = 277;  // cuDNN
constexpr double kSequencesMib = 62;      // kernels of attention and table look-ups

// Copies of the parameters while activations are there: weights, gradients (not quite at the same
// time as all activations), states of the optimizer.
constexpr double kRunCopies = 1.7;
// At the optimizer's step, with the temporaries of its kernels over all tensors at once.
constexpr double kStepCopies = 3.5;
// The same for a tensor that is larger than what the backward pass has freed: weight, gradient and
// one temporary, all in memory of their own.
constexpr double kLargeStepCopies = 3.0;

constexpr double kKeptFactor = 1.037;    // the allocator's rounding and what it cannot reuse
constexpr double kConvFactor = 3.43;     // workspace and gradients of the widest convolution
constexpr double kLargestFactor = 1.04;  // temporaries of the backward pass

double StatesOf(Optimizer optimizer) {
  return optimizer == Optimizer::kSgd ? 0 : optimizer == Optimizer::kMomentum ? 1 : 2;
}

class Structural : public Estimator {
 public:
  std::string_view name() const override { return "structural"; }
  base::Result<Answer> Ask(const Question& question) const override;
};

base::Result<Answer> Structural::Ask(const Question& question) const {
  if (question.layers == nullptr) {
    return Fail(ErrorCode::kNotFound, question.summary_trouble.empty()
                                          ? "no model summary is at hand"
                                          : question.summary_trouble);
  }
  const model::LayerList& layers = *question.layers;
  if (!question.batch) return Fail(ErrorCode::kNotFound, "the batch size is not known");
  const bool no_shapes = LacksShapes(layers);
  const Kept kept = CountKept(layers);
  if (!layers.saved && kept.per_sample <= 0) {
    return Fail(ErrorCode::kNotFound, no_shapes ? "the summary gives neither shapes nor the widths "
                                                  "of a model of tokens"
                                                : "no layer of the summary grows with the batch");
  }

  Answer answer;
  answer.method = name();
  const auto batch = static_cast<double>(*question.batch);
  const Precision precision = question.precision.value_or(Precision::kFp32);
  const Optimizer optimizer = question.optimizer.value_or(Optimizer::kAdam);
  const double states = StatesOf(optimizer);
  const double weight_bytes = precision == Precision::kHalf ? 0.5 : 1;
  const double activation_bytes = precision == Precision::kFp32 ? 1 : 0.5;
  const double params_mib = weight_bytes * 4 * static_cast<double>(layers.params) / kMib;

  double context_mib = kShippedContextMib + (kept.has_conv        ? kConvolutionsMib
                                             : kept.has_embedding ? kSequencesMib
                                                                  : 0);
  if (question.site != nullptr) context_mib = question.site->ContextMib(context_mib);

  double run_mib = (kRunCopies + states) * params_mib;
  if (precision == Precision::kMixed) run_mib += params_mib / 2;  // 16-bit copies of the weights
  double large_mib = 0;
  for (const double bytes : kept.weights) {
    if (bytes <= kept.largest * batch) break;
    large_mib += weight_bytes * bytes / kMib;
  }
  const double large_step_mib = (kLargeStepCopies - kRunCopies) * large_mib;

  const double masks = kept.masks / std::max(kept.per_sample, 1.0);
  const double shrink = masks + (1 - masks) * activation_bytes;
  const double per_sample = layers.saved ? layers.saved->per_sample : kept.per_sample;
  const double constant = layers.saved ? layers.saved->constant : kept.constant;
  const double kept_mib = kKeptFactor * (per_sample * batch + constant) * shrink / kMib;
  const double conv_mib = kConvFactor * kept.widest_conv * batch * activation_bytes / kMib;
  const double largest_mib = kLargestFactor * kept.largest * batch * activation_bytes / kMib;
  const double logits_mib = kept.logits * batch / kMib;

  answer.terms = {{std::string(kContextTerm), context_mib},  {"parameters and optimizer", run_mib},
                  {"step of large tensors", large_step_mib}, {"kept for backward", kept_mib},
                  {"widest convolution", conv_mib},          {"largest tensor", largest_mib},
                  {"loss over the vocabulary", logits_mib}};
  double rest = 0;
  for (std::size_t i = 1; i < answer.terms.size(); ++i) rest += answer.terms[i].mib;
  const double step = (kStepCopies + states) * (params_mib - large_mib) +
                      (kLargeStepCopies + states) * large_mib - rest;
  if (step > 0) answer.terms.push_back({"step of the optimizer", step});
  std::erase_if(answer.terms, [](const Term& term) { return term.mib == 0; });
  const double point = context_mib + rest + std::max(0.0, step);
  answer.point_mib = RoundMib(point);

  const Evidence evidence = layers.saved                    ? Evidence::kExactBytes
                            : no_shapes || layers.collapsed ? Evidence::kPartial
                            : layers.has_input_shapes       ? Evidence::kShapes
                                                            : Evidence::kText;
  // The context is known; what the model adds to it is not.
  const double shipped_mib =
      context_mib + (point - context_mib) * ShippedFactor(evidence, question.coverage);
  double factor = shipped_mib / point;
  if (question.site != nullptr) factor = question.site->Factor(question.coverage, factor);
  answer.bound_mib = std::max(answer.point_mib, RoundMib(point * factor));
  answer.coverage = question.coverage;

  if (!question.optimizer) answer.warnings.emplace_back("no optimizer is stated: Adam is assumed");
  if (!question.precision) answer.warnings.emplace_back("no precision is stated: fp32 is assumed");
  if (no_shapes) {
    answer.warnings.push_back(
        fmt::format("the summary gives no shapes: texts of {} tokens are assumed", kAssumedTokens));
  }
  if (layers.collapsed) {
    answer.warnings.emplace_back(
        "blocks are printed as one row, so what they keep is a guess: print the summary at full "
        "depth");
  }
  if (kept.unfused_attention) {
    answer.warnings.emplace_back("attention by separate matrix products: less certain than usual");
  }
  if (question.gpus > 1) {
    answer.warnings.push_back(fmt::format(
        "for each of {} GPUs, with the batch of one of them and a whole copy of the model",
        question.gpus));
  }
  if (question.site != nullptr) {
    if (std::string remark = question.site->Remark(); !remark.empty()) {
      answer.warnings.push_back(std::move(remark));
    }
  }
  return answer;
}

}  // namespace

std::unique_ptr<Estimator> MakeStructural() {
  return std::make_unique<Structural>();
}

}  // namespace carma::estimate

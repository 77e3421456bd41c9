// Predicts the peak of a training step from the model's structure. docs/inside/estimators.md
// explains the formula and its constants, and docs/evidence/estimators.md gives its errors.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "estimate/calibration.h"
#include "estimate/estimator.h"
#include "estimate/loaded_code.h"
#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/kept.h"
#include "estimate/structural/layer_rule.h"
#include "estimate/structural/safety.h"
#include "model/features.h"

namespace carma::estimate {
namespace {

// How to print all layers and their inputs with torchinfo.
constexpr std::string_view kFullDepth =
    "depth=20 and col_names=(\"input_size\", \"output_size\", \"num_params\"), or use "
    "carma_summary.py";

constexpr double kMibBytes = 1024.0 * 1024.0;

// Copies of the parameters that coexist with the activations. All weights count, but only part of
// the gradients, because some activations are freed before all gradients exist. The optimizer's
// states do not count.
constexpr double kRunCopies = 1.7;
// Replaces kRunCopies if the gradients are never freed.
constexpr double kRunCopiesKept = 2.0;
// Copies that exist during the optimizer's step, including the temporaries of kernels that process
// all tensors at once.
constexpr double kStepCopies = 3.5;
// Copies of a tensor that is larger than any block that the backward pass frees. The weight, its
// gradient and one temporary each need newly allocated memory.
constexpr double kLargeStepCopies = 3.0;

constexpr double kKeptFactor = 1.01;     // allocator rounding and unusable remainders
constexpr double kConvFactor = 3.52;     // workspace and gradients of the widest convolution
constexpr double kLargestFactor = 0.81;  // temporaries of the backward pass
// Fragmentation of kept memory. Tensors of at most 10 MiB share 20 MiB segments, which leaves gaps
// between them; larger tensors have their own segments. The share lost to gaps is kSharedGaps for
// very small tensors, and half of that for a mean tensor size of kSegmentMib.
constexpr double kSharedGaps = 0.061;
constexpr double kSegmentMib = 20;

// Memory beyond weights and states, divided by torchinfo's total. Excludes the allocator's
// overhead. The total is twice the outputs of all modules that have parameters and no children.
// The kinds of rows that are printed show what the total leaves out (docs/inside/estimators.md,
// "Bound").
constexpr double kKeptOfPass = 0.91;        // batch norms, and activations that keep their output
constexpr double kNothingSeen = 1.18;       // no norm is printed: the overall median
constexpr double kLayerNormsOnly = 0.93;    // only layer norms are printed, no batch norms
constexpr double kKeepsInput = 1.14;        // GELU, SiLU …, which also keep their inputs
constexpr double kActivationInNorm = 1.68;  // norms with children are not in the total

double KeptOfPass(const model::LayerList& list) {
  bool batch_norm = false;
  bool layer_norm = false;
  bool keeps_input = false;
  bool activation_in_norm = false;
  for (const model::Layer& layer : list.layers) {
    const LayerRule rule = RuleOf(layer.type);
    batch_norm |= rule.batch_norm;
    layer_norm |= rule.row_statistics;
    keeps_input |= rule.role == Role::kKeepsInput;
    // Blocks of convolution, norm and activation do not count, because the total includes their
    // norms.
    activation_in_norm |= rule.norm_with_activation && !rule.convolution;
  }
  if (!batch_norm && !layer_norm && !activation_in_norm) return kNothingSeen;
  double factor = kKeptOfPass;
  if (layer_norm && !batch_norm) factor *= kLayerNormsOnly;
  if (keeps_input && batch_norm) factor *= kKeepsInput;
  if (activation_in_norm) factor *= kActivationInNorm;
  return factor;
}

// Kept bytes of a model whose summary prints blocks as one row, so that most layers are hidden
// (model::HidesMost). Computed from the total output size below the table and the visible rows'
// logits. Empty if the total or its batch size is unknown.
std::optional<Kept> KeptByTotals(const model::LayerList& list) {
  if (!list.pass_bytes || !list.batch) return std::nullopt;
  const Kept visible = CountKept(list);
  Kept kept;
  kept.per_sample = KeptOfPass(list) * *list.pass_bytes / static_cast<double>(*list.batch);
  kept.logits = visible.logits;
  kept.has_conv = visible.has_conv;
  kept.has_embedding = visible.has_embedding;
  return kept;
}

double StatesOf(Optimizer optimizer) {
  return optimizer == Optimizer::kSgd ? 0 : optimizer == Optimizer::kMomentum ? 1 : 2;
}

// Values derived from the Question and used by all terms. Sizes are relative: 1 means four bytes,
// 0.5 means two.
struct Numbers {
  double batch = 0;
  double activation_size = 1;
  double trained_mib = 0;          // parameters that are not frozen
  double frozen_mib = 0;           // frozen parameters and other models in memory
  double states_mib = 0;           // the optimizer's states
  std::optional<double> step_mib;  // temporaries of the optimizer's step, if counted
  double large_mib = 0;            // trained tensors larger than the memory of freed activations
  double run_copies = kRunCopies;
  double copies_mib = 0;    // 16-bit copies of the weights
  bool keeps_wide = false;  // some bytes counted in fp32 remain fp32 under autocast
  double counted_size = 1;  // size of a counted element relative to the requested size
};

// Before PyTorch 2.0, zero_grad() filled gradients with zeros by default instead of freeing them.
// From the second step on, all gradients therefore exist at the same time as all activations.
bool KeepsGradients(const model::LayerList& layers) {
  return layers.torch && layers.torch->starts_with("1.");
}

double SizeOf(Precision precision) {
  return precision == Precision::kFp32 ? 1 : 0.5;
}

// The precision that the dry run assumed when it counted bytes; fp32 if the list does not state it.
Precision CountedIn(const model::LayerList& layers) {
  if (!layers.saved || !layers.precision) return Precision::kFp32;
  return ParsePrecision(*layers.precision).value_or(Precision::kFp32);
}

// The number of trained parameters. If the list does not contain it, this is the number of all
// parameters.
std::int64_t TrainedParams(const model::LayerList& layers) {
  return layers.trainable > 0 ? std::min(layers.trainable, layers.params) : layers.params;
}

// Takes weights, optimizer states and step temporaries from the dry run, provided that the question
// and the dry run agree on whether weights are 16-bit.
void TakeHeld(const Question& question, Numbers& numbers) {
  const std::optional<model::HeldBytes>& held = question.layers->held;
  const bool half = question.precision.value_or(Precision::kFp32) == Precision::kHalf;
  if (!held || half != (CountedIn(*question.layers) == Precision::kHalf)) return;
  const double before_mib = numbers.trained_mib;
  numbers.trained_mib = held->trained / kMibBytes;
  numbers.frozen_mib = (held->frozen + held->others) / kMibBytes;
  if (before_mib > 0) numbers.states_mib *= numbers.trained_mib / before_mib;
  if (held->states) numbers.states_mib = *held->states / kMibBytes;
  if (held->step) numbers.step_mib = *held->step / kMibBytes;
}

Numbers NumbersOf(const Question& question, const Kept& kept) {
  const Precision precision = question.precision.value_or(Precision::kFp32);
  const double weight_size = precision == Precision::kHalf ? 0.5 : 1;
  Numbers numbers;
  numbers.batch = static_cast<double>(*question.batch);
  numbers.activation_size = SizeOf(precision);
  const Precision counted = CountedIn(*question.layers);
  numbers.counted_size = numbers.activation_size / SizeOf(counted);
  numbers.keeps_wide = precision == Precision::kMixed && counted == Precision::kFp32;
  const auto mib_of = [&](std::int64_t params) {
    return weight_size * 4 * static_cast<double>(params) / kMibBytes;
  };
  numbers.trained_mib = mib_of(TrainedParams(*question.layers));
  numbers.frozen_mib = mib_of(question.layers->params) - numbers.trained_mib;
  numbers.states_mib =
      StatesOf(question.optimizer.value_or(Optimizer::kAdam)) * numbers.trained_mib;
  TakeHeld(question, numbers);
  if (KeepsGradients(*question.layers)) numbers.run_copies = kRunCopiesKept;
  // A dry run with autocast has already counted the copies that autocast makes.
  if (precision == Precision::kMixed && counted != Precision::kMixed)
    numbers.copies_mib = (numbers.trained_mib + numbers.frozen_mib) / 2;
  for (const double bytes : kept.weights) {
    if (bytes <= kept.largest * numbers.batch) break;
    numbers.large_mib += weight_size * bytes / kMibBytes;
  }
  numbers.large_mib = std::min(numbers.large_mib, numbers.trained_mib);
  return numbers;
}

Libraries LibrariesOf(const Kept& kept) {
  if (kept.has_conv) return Libraries::kConvolutions;
  return kept.has_embedding ? Libraries::kSequences : Libraries::kPlain;
}

double ContextMib(const Question& question, const Kept& kept) {
  const Loading loading = LoadingOf(question.layers->torch.value_or(""));
  const double shipped_mib = ShippedMib({loading, LibrariesOf(kept)});
  return question.site == nullptr ? shipped_mib : question.site->ContextMib(shipped_mib);
}

// The factor that converts counted bytes to the question's precision.
double ShrinkOf(const Kept& kept, const Numbers& numbers) {
  const double all = std::max(kept.per_sample, 1.0);
  const double masks = kept.masks / all;
  const double wide = std::min(numbers.keeps_wide ? kept.wide / all : 0, 1 - masks);
  return masks + wide + (1 - masks - wide) * numbers.counted_size;
}

double KeptMib(const model::LayerList& layers, const Kept& kept, const Numbers& numbers) {
  const double shrink = ShrinkOf(kept, numbers);
  const double per_sample = layers.saved ? layers.saved->per_sample : kept.per_sample;
  const double constant = layers.saved ? layers.saved->constant : kept.constant;
  const double mib = (per_sample * numbers.batch + constant) * shrink / kMibBytes;
  const double mean_mib = mib / std::max(kept.operations, 1.0);
  return (kKeptFactor + kSharedGaps / (1 + mean_mib / kSegmentMib)) * mib;
}

// The memory of the logits in the loss. A dry run with a loss over the logits has already counted
// one of the three parts: log-softmax's result.
double LossMib(const model::LayerList& layers, const Kept& kept, const Numbers& numbers) {
  const bool counted = layers.saved && (layers.loss == "cross-entropy" || layers.loss == "own");
  return (counted ? 2.0 / 3 : 1) * kept.logits * numbers.batch / kMibBytes;
}

// All terms of the formula's `rest`, in the order in which they are displayed and added up.
std::vector<Term> RestOf(const Question& question, const Kept& kept, const Numbers& numbers) {
  const auto of_batch = [&](double factor, double bytes) {
    return factor * bytes * numbers.batch * numbers.activation_size / kMibBytes;
  };
  const double run_mib = numbers.frozen_mib + numbers.copies_mib + numbers.states_mib +
                         numbers.run_copies * numbers.trained_mib;
  return {{"parameters and optimizer", run_mib},
          {"optimizer step for large tensors",
           (kLargeStepCopies - numbers.run_copies) * numbers.large_mib},
          {"kept for backward", KeptMib(*question.layers, kept, numbers)},
          {"widest convolution", of_batch(kConvFactor, kept.widest_conv)},
          {"largest tensor", of_batch(kLargestFactor, kept.largest_inside)},
          {"loss over the vocabulary", LossMib(*question.layers, kept, numbers)}};
}

// Memory that the optimizer's step needs beyond rest_mib; 0 or less if the step fits into rest_mib.
// Step temporaries counted by a dry run replace one copy of all gradients.
double StepMib(const Numbers& numbers, double rest_mib) {
  const double copy = numbers.step_mib ? 1 : 0;
  return numbers.frozen_mib + numbers.states_mib + numbers.step_mib.value_or(0) +
         (kStepCopies - copy) * (numbers.trained_mib - numbers.large_mib) +
         (kLargeStepCopies - copy) * numbers.large_mib - rest_mib;
}

// One or two unfamiliar class names mean little, because one of them is the model's own class.
bool HasOwnCode(const model::LayerList& layers) {
  constexpr std::size_t kMany = 3;
  return UnfamiliarModules(layers) >= kMany;
}

bool HasContainers(const model::LayerList& layers) {
  return std::ranges::any_of(
      layers.layers, [](const model::Layer& layer) { return layer.kind != model::RowKind::kLeaf; });
}

// All measured runs used fp32, so estimates for other precisions are kUncompared. Bytes that a dry
// run counted in another precision than the question's are only as reliable as a text summary
// (kText).
Evidence EvidenceOf(const Question& question, bool no_shapes) {
  const model::LayerList& layers = *question.layers;
  const Precision asked = question.precision.value_or(Precision::kFp32);
  if (layers.saved && CountedIn(layers) != asked) return Evidence::kText;
  if (layers.saved)
    return asked == Precision::kFp32 ? Evidence::kExactBytes : Evidence::kUncompared;
  // Without shapes, the input texts may be longer than assumed.
  if (layers.collapsed || (no_shapes && !AssumesTheLongest(layers))) return Evidence::kPartial;
  if (!layers.has_input_shapes) return Evidence::kText;
  if (asked != Precision::kFp32) return Evidence::kUncompared;
  if (HasOwnCode(layers))
    return HasUnfamiliarAttention(layers) ? Evidence::kOwnAttention : Evidence::kOwnBlocks;
  return HasContainers(layers) ? Evidence::kCompared : Evidence::kShapes;
}

// The context is known, so the factor applies only to the memory that the model adds to it.
std::int64_t BoundMib(const Question& question, double context_mib, double point_mib,
                      Evidence evidence) {
  const double shipped_mib =
      context_mib + (point_mib - context_mib) * ShippedFactor(evidence, question.coverage);
  double factor = shipped_mib / point_mib;
  // The site's ratios come from tasks whose summaries list layers, so they do not apply to totals.
  if (question.site != nullptr && evidence != Evidence::kTotals)
    factor = question.site->Factor(question.coverage, factor);
  return std::max(RoundMib(point_mib), RoundMib(point_mib * factor));
}

std::vector<std::string> WarningsOf(const Question& question, const Kept& kept, bool no_shapes,
                                    Evidence evidence) {
  std::vector<std::string> warnings;
  if (!question.optimizer) warnings.emplace_back("no optimizer specified; assuming Adam");
  if (!question.precision) warnings.emplace_back("no precision specified; assuming fp32");
  if (no_shapes) {
    warnings.push_back(fmt::format(
        "the summary shows no shapes; assuming texts of {} tokens{}",
        AssumedTokens(*question.layers),
        AssumesTheLongest(*question.layers) ? ", the longest that the model accepts" : ""));
  }
  if (evidence == Evidence::kTotals) {
    warnings.push_back(fmt::format(
        "most parameters are in blocks printed as one row, so the estimate is based on the "
        "totals below the table, with a doubled margin; print all layers with {}",
        kFullDepth));
  } else if (question.layers->collapsed) {
    warnings.emplace_back(
        "some blocks are printed as one row each, so the memory that they keep for the backward "
        "pass is a guess; print the summary at full depth");
  }
  if (!question.layers->saved && HasOwnCode(*question.layers)) {
    warnings.push_back(
        fmt::format("the model has {} custom module types; the memory kept by code between the "
                    "rows is unknown, so the bound is wider (carma_summary.py counts this memory)",
                    UnfamiliarModules(*question.layers)));
  }
  if (kept.unfused_attention)
    warnings.emplace_back(
        "attention uses separate matrix products, so the estimate is less certain than usual");
  if (question.gpus > 1) {
    warnings.push_back(fmt::format(
        "each of the {} GPUs holds a full copy of the model and its own share of the batch",
        question.gpus));
  }
  if (question.site != nullptr) {
    if (std::string remark = question.site->Remark(); !remark.empty())
      warnings.push_back(std::move(remark));
  }
  return warnings;
}

// The terms of the formula without the context, in the order in which they are displayed and added
// up.
std::vector<Term> TermsOf(const Question& question, const Kept& kept, const Numbers& numbers) {
  std::vector<Term> terms = RestOf(question, kept, numbers);
  const double rest_mib = SumOf(terms);
  terms.push_back({"optimizer step", std::max(0.0, StepMib(numbers, rest_mib))});
  // DistributedDataParallel reduces copies of the gradients and does not free them.
  if (question.gpus > 1)
    terms.push_back({"shared gradients", kCollectivesMib + numbers.trained_mib});
  return terms;
}

// Returns the formula's highest result for any smaller batch. A weight tensor counts as large until
// an activation outgrows it. At that batch size the result drops, although the actual memory
// requirement does not, so only the batches just before such drops need to be tried.
double SmallerBatchMib(const Question& question, const Kept& kept) {
  constexpr int kMostPlaces = 50;
  double most_mib = 0;
  double before = 0;
  int places = 0;
  for (const double bytes : kept.weights) {
    const double batch = std::ceil(bytes / std::max(kept.largest, 1.0)) - 1;
    if (batch < 1 || places == kMostPlaces) break;
    if (batch >= static_cast<double>(*question.batch) || batch == before) continue;
    before = batch;
    ++places;
    Question smaller = question;
    smaller.batch = static_cast<std::int64_t>(batch);
    most_mib = std::max(most_mib, SumOf(TermsOf(smaller, kept, NumbersOf(smaller, kept))));
  }
  return most_mib;
}

class Structural : public Estimator {
 public:
  Result<Answer> Ask(const Question& question) const override {
    if (question.layers == nullptr) {
      return NotFound(question.summary_trouble.empty() ? "there is no model summary"
                                                       : question.summary_trouble);
    }
    const model::LayerList& layers = *question.layers;
    if (!question.batch) return NotFound("the batch size is unknown");
    const bool hides_most = model::HidesMost(layers);
    const std::optional<Kept> by_totals = hides_most ? KeptByTotals(layers) : std::nullopt;
    if (hides_most && !by_totals) {
      return NotFound(
          "most parameters are in blocks printed as one row, so the memory kept for the backward "
          "pass is unknown; print all layers with {}",
          kFullDepth);
    }
    const bool no_shapes = LacksShapes(layers);
    const Kept kept = by_totals ? *by_totals : CountKept(layers);
    if (!layers.saved && kept.per_sample <= 0) {
      return NotFound(no_shapes
                          ? "the summary shows neither shapes nor the layer widths of a token model"
                          : "no layer in the summary scales with the batch size");
    }
    const double context_mib = ContextMib(question, kept);
    Answer answer;
    answer.method = "structural";
    answer.terms = TermsOf(question, kept, NumbersOf(question, kept));
    const double of_batch_mib = SumOf(answer.terms);
    const double more_mib = std::max(0.0, SmallerBatchMib(question, kept) - of_batch_mib);
    answer.terms.insert(answer.terms.begin(), Term{std::string(kContextTerm), context_mib});
    answer.terms.emplace_back("extra for smaller batches", more_mib);
    std::erase_if(answer.terms, [](const Term& term) { return term.mib == 0; });

    const double point_mib = context_mib + of_batch_mib + more_mib;
    answer.point_mib = RoundMib(point_mib);
    const Evidence evidence = by_totals ? Evidence::kTotals : EvidenceOf(question, no_shapes);
    answer.bound_mib = BoundMib(question, context_mib, point_mib, evidence);
    answer.coverage = question.coverage;
    answer.warnings = WarningsOf(question, kept, no_shapes, evidence);
    return answer;
  }
};

}  // namespace

std::unique_ptr<Estimator> MakeStructural() {
  return std::make_unique<Structural>();
}

}  // namespace carma::estimate

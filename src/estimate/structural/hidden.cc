// Counts the memory of a model whose blocks are printed as one row, from the totals below the
// table.
#include "estimate/structural/hidden.h"

#include "estimate/structural/layer_rule.h"

namespace carma::estimate {
namespace {

// Memory other than weights and states as a multiple of torchinfo's total (twice the outputs of all
// modules with parameters and without children), without the allocator's share. The kinds of
// printed rows show what the total leaves out (docs/inside/estimators.md, "Bound").
constexpr double kKeptOfPass = 0.91;        // batch norms, and activations that keep their output
constexpr double kNothingSeen = 1.18;       // no printed norm: the median of all
constexpr double kLayerNormsOnly = 0.93;    // norms with no separate result; attention matrices
constexpr double kKeepsInput = 1.14;        // GELU, SiLU … also keep their input
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
    // In a block of convolution, norm and activation, the norm is in the total.
    activation_in_norm |= rule.norm_with_activation && !rule.convolution;
  }
  if (!batch_norm && !layer_norm && !activation_in_norm) return kNothingSeen;
  double factor = kKeptOfPass;
  if (layer_norm && !batch_norm) factor *= kLayerNormsOnly;
  if (keeps_input && batch_norm) factor *= kKeepsInput;
  if (activation_in_norm) factor *= kActivationInNorm;
  return factor;
}

}  // namespace

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

}  // namespace carma::estimate

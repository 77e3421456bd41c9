#include "estimate/structural/hidden.h"

#include <cstdint>

#include "model/op.h"

namespace carma::estimate {
namespace {

// Memory beside weights and states, as a multiple of torchinfo's total of outputs: the median of
// 2976 runs of 39 families of image models, without the allocator's share.
constexpr double kKeptOfPass = 1.18;

// Parameters of what computes up to the last block that is printed as one row. Tables, and the head
// behind that block, hold many and keep little.
std::int64_t BodyParams(const model::LayerList& list) {
  std::int64_t body = 0;
  std::int64_t up_to_here = 0;
  for (const model::Layer& layer : list.layers) {
    if (model::OpOf(layer.type) != model::Op::kEmbedding) up_to_here += layer.params;
    if (layer.kind == model::RowKind::kUnknown) body = up_to_here;
  }
  return body;
}

}  // namespace

// More than a quarter of the body is more than the bound makes up for.
bool HidesMost(const model::LayerList& list) {
  const std::int64_t body = BodyParams(list);
  return list.format == model::SummaryFormat::kTorchInfo && list.collapsed &&
         (2 * list.hidden_params > list.params || (body > 0 && 4 * list.hidden_params > body));
}

std::optional<Kept> KeptByTotals(const model::LayerList& list) {
  if (!list.pass_bytes || !list.batch) return std::nullopt;
  const Kept visible = CountKept(list);
  Kept kept;
  kept.per_sample = kKeptOfPass * *list.pass_bytes / static_cast<double>(*list.batch);
  kept.logits = visible.logits;
  kept.has_conv = visible.has_conv;
  kept.has_embedding = visible.has_embedding;
  return kept;
}

}  // namespace carma::estimate

#include "model/features.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/op.h"

namespace carma::model {
namespace {

// Counts how often each name occurs. Models use one or two activation functions, so a vector is
// faster than a map.
class Tally {
 public:
  void Add(std::string_view name) {
    const auto found = std::ranges::find(counts_, name, &Count::first);
    if (found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace_back(name, 1);
    }
  }
  std::string_view Commonest() const {
    const auto most = std::ranges::max_element(counts_, {}, &Count::second);
    return most == counts_.end() ? std::string_view() : most->first;
  }

 private:
  using Count = std::pair<std::string_view, int>;
  std::vector<Count> counts_;
};

// Parameters of the compute layers up to the last block that is printed as one row. Embedding
// tables, and the head after that block, are excluded: they have many parameters, but little of
// their output is saved for the backward pass.
std::int64_t BodyParams(const LayerList& list) {
  std::int64_t body = 0;
  std::int64_t up_to_here = 0;
  for (const Layer& layer : list.layers) {
    if (OpOf(layer.type) != Op::kEmbedding) up_to_here += layer.params;
    if (layer.kind == RowKind::kUnknown) body = up_to_here;
  }
  return body;
}

}  // namespace

Features Summarize(const LayerList& list) {
  Features features;
  features.params = list.params;
  Tally functions;
  for (const Layer& layer : list.layers) {
    if (!IsOperation(layer)) continue;
    const Op op = OpOf(layer.type);
    if (op == Op::kReshape) continue;
    ++features.depth;
    features.linear += op == Op::kLinear;
    features.conv += op == Op::kConv;
    features.batch_norm += op == Op::kBatchNorm;
    features.layer_norm += op == Op::kLayerNorm;
    features.dropout += op == Op::kDropout;
    features.activation += op == Op::kActivation;
    features.embedding += op == Op::kEmbedding;
    if (op == Op::kActivation) functions.Add(layer.type);
    // Skips position tables and similar outputs, whose size does not depend on the batch.
    if (layer.out.ScalesWithBatch())
      features.activations = std::min(features.activations + layer.out.Elements(), kMaxElements);
  }
  features.activation_function = functions.Commonest();
  return features;
}

std::string_view FamilyName(Family family) {
  constexpr std::string_view kNames[] = {"mlp", "cnn", "transformer"};
  return kNames[static_cast<std::size_t>(family)];
}

Family Classify(const LayerList& list) {
  const Features features = Summarize(list);
  const bool attention = std::ranges::any_of(
      list.layers, [](const Layer& layer) { return OpOf(layer.type) == Op::kAttention; });
  if (features.layer_norm > 0 && features.linear > features.conv &&
      (attention || features.embedding > 0)) {
    return Family::kTransformer;
  }
  return features.conv > 0 ? Family::kCnn : Family::kMlp;
}

// If more than half of the model or a quarter of its body is hidden, an upper bound computed from
// the rows would be too low.
bool HidesMost(const LayerList& list) {
  const std::int64_t body = BodyParams(list);
  return list.format == SummaryFormat::kTorchInfo && list.collapsed &&
         (2 * list.hidden_params > list.params || (body > 0 && 4 * list.hidden_params > body));
}

std::int64_t BatchOfOneGpu(const LayerList& list, std::int64_t batch, int gpus) {
  if (list.model != "DataParallel" || gpus < 2) return batch;
  return (batch + gpus - 1) / gpus;
}

}  // namespace carma::model

#include "estimate/structural/kept.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/corrections.h"
#include "estimate/structural/graph.h"
#include "estimate/structural/keep_rules.h"
#include "model/op.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::Shape;

constexpr std::int64_t kLeastVocabulary = 4096;

// Measures dense convolutions with kernels larger than 1x1, because only these need a workspace.
void MeasureConvolution(const Graph& graph, const Row& row, Kept& kept) {
  const Layer& layer = *row.layer;
  kept.has_conv = true;
  if (layer.out.rank() != 4) return;
  const Shape& read = layer.in.empty() ? graph.trail[row.read].shape : layer.in;
  const auto channels = static_cast<double>(read.rank() == 4 ? Dimension(read, 1) : 3);
  const double kernel = static_cast<double>(layer.params) /
                        std::max(1.0, channels * static_cast<double>(Dimension(layer.out, 1)));
  if (kernel > 1.5)
    kept.widest_conv = std::max(kept.widest_conv, kElementBytes * (row.in + row.out));
}

// Records what the estimate needs besides the kept bytes, such as the size of the largest tensor.
void Measure(const Graph& graph, const Row& row, Kept& kept) {
  const bool makes_new =
      row.step == Step::kOperation || (row.step == Step::kPassing && row.dropout > 0);
  if (!makes_new) return;
  if (row.layer->out.ScalesWithBatch())
    kept.largest = std::max(kept.largest, kElementBytes * row.out);
  if (row.step != Step::kOperation || !IsProduct(row)) return;
  if (row.rule->convolution) MeasureConvolution(graph, row, kept);
  kept.has_embedding = kept.has_embedding || model::OpOf(row.layer->type) == model::Op::kEmbedding;
}

// A language model's logits count three times: the caller holds them, log-softmax keeps its result,
// and their gradient has the same size.
double LogitsOf(const Graph& graph, const Kept& kept) {
  if (graph.last == Tensor::kNobody || !kept.has_embedding) return 0;
  const Tensor& last = graph.trail[graph.last];
  const bool scores =
      last.linear && last.shape.rank() == 3 && last.shape.last() >= kLeastVocabulary;
  return scores ? 3 * kElementBytes * last.elements : 0;
}

double LargestInside(const Graph& graph, const Kept& kept) {
  if (kept.logits == 0) return kept.largest;
  double largest = 0;
  for (const Row& row : graph.rows()) {
    if (row.step != Step::kOperation || !row.layer->out.ScalesWithBatch()) continue;
    if (row.layer->out != graph.trail[graph.last].shape)
      largest = std::max(largest, kElementBytes * row.out);
  }
  return largest;
}

// Adds up the tensors that autocast computes in fp32: LayerNorm inputs, each counted once, and
// softmax results.
void MeasureWide(const Graph& graph, Kept& kept) {
  std::vector<bool> counted(graph.trail.all().size());
  for (const Row& row : graph.rows()) {
    if (row.step != Step::kOperation) continue;
    if (row.rule->softmax) kept.wide += kElementBytes * row.out;
    if (!row.rule->row_statistics || row.holds != Holds::kInput) continue;
    const auto read = static_cast<std::size_t>(row.read);
    if (!counted[read]) kept.wide += kElementBytes * graph.trail[row.read].elements;
    counted[read] = true;
  }
}

Kept Count(const LayerList& list) {
  const Graph graph = MakeGraph(list);
  Kept kept;
  MeasureWide(graph, kept);
  for (const Tensor& tensor : graph.trail.all()) {
    if (tensor.kept) kept.AddElements(tensor.elements);
  }
  for (const Row& row : graph.rows()) {
    AddBesides(graph, row, kept);
    Correct(graph, row, kept);
    Measure(graph, row, kept);
    if (row.kind == Row::Kind::kOperation) ++kept.operations;
    const std::int64_t trained = list.trainable > 0 ? row.layer->trainable : row.layer->params;
    if (trained > 0) kept.weights.push_back(kElementBytes * static_cast<double>(trained));
  }
  std::sort(kept.weights.rbegin(), kept.weights.rend());
  kept.logits = LogitsOf(graph, kept);
  kept.largest_inside = LargestInside(graph, kept);
  return kept;
}

}  // namespace

Kept CountKept(const LayerList& list) {
  return LacksShapes(list) ? Count(WithAssumedTokens(list)) : Count(list);
}

}  // namespace carma::estimate

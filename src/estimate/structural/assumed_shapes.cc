#include "estimate/structural/assumed_shapes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/op.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::Op;
using model::RowKind;
using model::Shape;

// RoBERTa and similar models number positions from two.
constexpr std::int64_t kUnusedPositions = 2;

Shape TextOf(std::int64_t tokens, std::int64_t width) {
  Shape shape;
  // Push() fails only for implausible dimensions, such as a width above the limit. The shape then
  // remains unknown.
  if (!shape.Push(-1) || !shape.Push(tokens) || !shape.Push(width)) return {};
  return shape;
}

// Returns true if this is a position embedding, judging by its name:
// "embeddings.position_embeddings", "pos_embed" or GPT-2's "wpe". Similar names, such as
// "relative_position_bias" and "pos_tag_embedding" (parts of speech), do not match.
bool NamesPositions(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  return name == "wpe" || name.starts_with("position_emb") || name.starts_with("pos_emb");
}

// Where the activation at index `at` belongs in the order of execution: between two linear layers
// whose widths match.
std::size_t PlaceOf(const std::vector<Layer>& layers, std::size_t at) {
  constexpr std::size_t kReach = 4;
  for (std::size_t i = at - std::min<std::size_t>(at, 1); i >= 1 && at - i < kReach; --i) {
    const Layer& second = layers[i];
    const Layer& first = layers[i - 1];
    if (second.kind != RowKind::kLeaf || first.kind != RowKind::kLeaf) break;
    if (model::OpOf(second.type) == Op::kLinear && model::OpOf(first.type) == Op::kLinear &&
        first.out_features && first.out_features == second.in_features &&
        *first.out_features > second.out_features.value_or(0)) {
      return i;
    }
  }
  return at;
}

}  // namespace

std::optional<std::int64_t> LongestText(const LayerList& list) {
  std::optional<std::int64_t> longest;
  for (const Layer& layer : list.layers) {
    if (model::OpOf(layer.type) != Op::kEmbedding || !NamesPositions(layer.name)) continue;
    if (layer.in_features > kUnusedPositions)
      longest = std::max(longest.value_or(0), *layer.in_features);
  }
  return longest;
}

std::int64_t AssumedTokens(const LayerList& list) {
  return std::min<std::int64_t>(kAssumedTokens, LongestText(list).value_or(kAssumedTokens));
}

bool AssumesTheLongest(const LayerList& list) {
  const std::optional<std::int64_t> longest = LongestText(list);
  return longest && *longest <= kAssumedTokens + kUnusedPositions;
}

bool LacksShapes(const LayerList& list) {
  return std::ranges::all_of(list.layers, [](const Layer& layer) { return layer.out.empty(); });
}

LayerList WithAssumedTokens(const LayerList& list) {
  LayerList shaped = list;
  std::vector<Layer>& layers = shaped.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != RowKind::kLeaf || model::OpOf(layers[i].type) != Op::kActivation)
      continue;
    const auto place = layers.begin() + static_cast<std::ptrdiff_t>(PlaceOf(layers, i));
    const auto activation = layers.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(place, activation, activation + 1);
  }
  const std::int64_t tokens = AssumedTokens(list);
  std::int64_t width = 0;
  for (Layer& layer : layers) {
    const Op op = model::OpOf(layer.type);
    if (op == Op::kConv || op == Op::kRecurrent) return list;  // not a pure token model
    if (layer.kind == RowKind::kContainer) continue;
    if (layer.kind == RowKind::kLeaf && layer.out_features) {
      const bool table = op == Op::kEmbedding;
      layer.in = TextOf(tokens, table ? 1 : layer.in_features.value_or(*layer.out_features));
      width = *layer.out_features;
    } else if (width > 0) {
      layer.in = TextOf(tokens, width);
    }
    if (width > 0) layer.out = TextOf(tokens, width);
  }
  return shaped;
}

}  // namespace carma::estimate

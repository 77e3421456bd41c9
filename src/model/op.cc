#include "model/op.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace carma::model {
namespace {

enum class Where { kWhole, kStart, kEnd, kAnywhere };

struct Rule {
  Where where;
  std::string_view text;  // lower case
  Op op;
};

// The first rule that fits decides. Names that say what a layer is made of ("attention", "norm")
// stand before those that say what it is made from ("linear", "conv").
constexpr Rule kRules[] = {
    {Where::kStart, "identity", Op::kReshape},
    {Where::kStart, "flatten", Op::kReshape},
    {Where::kStart, "unflatten", Op::kReshape},
    {Where::kStart, "upsampl", Op::kReshape},
    {Where::kStart, "pixelshuffle", Op::kReshape},
    {Where::kStart, "pixelunshuffle", Op::kReshape},
    {Where::kStart, "channelshuffle", Op::kReshape},
    {Where::kStart, "permute", Op::kReshape},
    {Where::kStart, "reshape", Op::kReshape},
    {Where::kStart, "rearrange", Op::kReshape},
    {Where::kStart, "zeropad", Op::kReshape},
    {Where::kStart, "constantpad", Op::kReshape},
    {Where::kStart, "reflectionpad", Op::kReshape},
    {Where::kStart, "replicationpad", Op::kReshape},
    {Where::kStart, "input", Op::kReshape},
    {Where::kWhole, "format", Op::kReshape},
    {Where::kAnywhere, "dropout", Op::kDropout},
    {Where::kStart, "droppath", Op::kDropout},
    {Where::kStart, "dropblock", Op::kDropout},
    {Where::kStart, "stochasticdepth", Op::kDropout},
    {Where::kAnywhere, "attention", Op::kAttention},
    {Where::kAnywhere, "attn", Op::kAttention},
    {Where::kAnywhere, "batchnorm", Op::kBatchNorm},
    {Where::kAnywhere, "inplaceabn", Op::kBatchNorm},
    {Where::kAnywhere, "embedding", Op::kEmbedding},
    {Where::kAnywhere, "pool", Op::kPool},
    {Where::kAnywhere, "conv", Op::kConv},
    {Where::kAnywhere, "linear", Op::kLinear},
    {Where::kAnywhere, "norm", Op::kLayerNorm},
    {Where::kStart, "frn", Op::kLayerNorm},
    {Where::kStart, "filterresponse", Op::kLayerNorm},
    {Where::kStart, "lstm", Op::kRecurrent},
    {Where::kStart, "gru", Op::kRecurrent},
    {Where::kStart, "rnn", Op::kRecurrent},
    {Where::kEnd, "relu", Op::kActivation},
    {Where::kStart, "relu", Op::kActivation},
    {Where::kStart, "elu", Op::kActivation},
    {Where::kStart, "celu", Op::kActivation},
    {Where::kStart, "selu", Op::kActivation},
    {Where::kStart, "glu", Op::kActivation},
    {Where::kAnywhere, "gelu", Op::kActivation},
    {Where::kAnywhere, "silu", Op::kActivation},
    {Where::kAnywhere, "swish", Op::kActivation},
    {Where::kAnywhere, "mish", Op::kActivation},
    {Where::kAnywhere, "softmax", Op::kActivation},
    {Where::kAnywhere, "sigmoid", Op::kActivation},
    {Where::kStart, "tanh", Op::kActivation},
    {Where::kStart, "softplus", Op::kActivation},
    {Where::kStart, "softsign", Op::kActivation},
    {Where::kStart, "softmin", Op::kActivation},
    {Where::kStart, "hard", Op::kActivation},
    {Where::kEnd, "shrink", Op::kActivation},
    {Where::kStart, "threshold", Op::kActivation},
};

bool Fits(const Rule& rule, std::string_view name) {
  switch (rule.where) {
    case Where::kWhole:
      return name == rule.text;
    case Where::kStart:
      return name.starts_with(rule.text);
    case Where::kEnd:
      return name.ends_with(rule.text);
    case Where::kAnywhere:
      return name.find(rule.text) != std::string_view::npos;
  }
  return false;
}

// Nearly every row of nearly every model is one of these: found without walking the rules.
struct Common {
  std::string_view type;
  Op op;
};
constexpr std::array kCommon{
    Common{"AdaptiveAvgPool2d", Op::kPool},
    Common{"BatchNorm1d", Op::kBatchNorm},
    Common{"BatchNorm2d", Op::kBatchNorm},
    Common{"BatchNormAct2d", Op::kBatchNorm},
    Common{"Conv1D", Op::kLinear},  // not Conv1d: transformers' linear layer
    Common{"Conv1d", Op::kConv},
    Common{"Conv2d", Op::kConv},
    Common{"Dropout", Op::kDropout},
    Common{"Embedding", Op::kEmbedding},
    Common{"GELU", Op::kActivation},
    Common{"Identity", Op::kReshape},
    Common{"LayerNorm", Op::kLayerNorm},
    Common{"Linear", Op::kLinear},
    Common{"MaxPool2d", Op::kPool},
    Common{"ReLU", Op::kActivation},
    Common{"ReLU6", Op::kActivation},
    Common{"SiLU", Op::kActivation},
    Common{"Sigmoid", Op::kActivation},
};
static_assert(std::ranges::is_sorted(kCommon, {}, &Common::type));

constexpr std::size_t kLongestName = 128;

// Pools that are one operation; "SelectAdaptivePool2d" contains one.
bool IsPlainPool(std::string_view type) {
  constexpr std::string_view kStarts[] = {"Adaptive", "Max", "Avg", "LP", "Fractional", "Global"};
  return std::ranges::any_of(kStarts, [&](std::string_view s) { return type.starts_with(s); });
}

}  // namespace

Op OpOf(std::string_view type) {
  const auto common = std::ranges::lower_bound(kCommon, type, {}, &Common::type);
  if (common != kCommon.end() && common->type == type) return common->op;
  std::array<char, kLongestName> lower;
  const std::size_t size = std::min(type.size(), lower.size());
  std::transform(type.begin(), type.begin() + static_cast<std::ptrdiff_t>(size), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::string_view name(lower.data(), size);
  const auto* rule = std::ranges::find_if(kRules, [&](const Rule& r) { return Fits(r, name); });
  return rule == std::end(kRules) ? Op::kOther : rule->op;
}

bool IsOperation(const Layer& layer) {
  if (layer.kind == RowKind::kLeaf) return true;
  if (layer.kind == RowKind::kContainer) return false;
  const Op op = OpOf(layer.type);
  if (layer.kind == RowKind::kBlock) {
    return op == Op::kBatchNorm || op == Op::kLayerNorm || op == Op::kAttention;
  }
  if (op == Op::kActivation || op == Op::kDropout || op == Op::kReshape) return true;
  if (op == Op::kPool) return IsPlainPool(layer.type);
  return layer.params > 0;
}

}  // namespace carma::model

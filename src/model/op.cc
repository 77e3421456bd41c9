#include "model/op.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace carma::model {
namespace {

enum class Where { kWhole, kStart, kEnd, kAnywhere };

struct Rule {
  std::string_view text;  // lower case
  Where where;
  Op op;
};

// Only the first matching rule applies. Words that name a layer's purpose ("attention", "norm")
// come before words that name its parts ("linear", "conv").
constexpr Rule kRules[] = {
    {"identity", Where::kStart, Op::kReshape},
    {"flatten", Where::kStart, Op::kReshape},
    {"unflatten", Where::kStart, Op::kReshape},
    {"upsampl", Where::kStart, Op::kReshape},
    {"pixelshuffle", Where::kStart, Op::kReshape},
    {"pixelunshuffle", Where::kStart, Op::kReshape},
    {"channelshuffle", Where::kStart, Op::kReshape},
    {"permute", Where::kStart, Op::kReshape},
    {"reshape", Where::kStart, Op::kReshape},
    {"rearrange", Where::kStart, Op::kReshape},
    {"zeropad", Where::kStart, Op::kReshape},
    {"constantpad", Where::kStart, Op::kReshape},
    {"reflectionpad", Where::kStart, Op::kReshape},
    {"replicationpad", Where::kStart, Op::kReshape},
    {"input", Where::kStart, Op::kReshape},
    {"format", Where::kWhole, Op::kReshape},
    {"dropout", Where::kAnywhere, Op::kDropout},
    {"droppath", Where::kStart, Op::kDropout},
    {"dropblock", Where::kStart, Op::kDropout},
    {"stochasticdepth", Where::kStart, Op::kDropout},
    {"attention", Where::kAnywhere, Op::kAttention},
    {"attn", Where::kAnywhere, Op::kAttention},
    {"batchnorm", Where::kAnywhere, Op::kBatchNorm},
    {"inplaceabn", Where::kAnywhere, Op::kBatchNorm},
    {"embedding", Where::kAnywhere, Op::kEmbedding},
    {"pool", Where::kAnywhere, Op::kPool},
    {"conv", Where::kAnywhere, Op::kConv},
    {"linear", Where::kAnywhere, Op::kLinear},
    {"norm", Where::kAnywhere, Op::kLayerNorm},
    {"frn", Where::kStart, Op::kLayerNorm},
    {"filterresponse", Where::kStart, Op::kLayerNorm},
    {"lstm", Where::kStart, Op::kRecurrent},
    {"gru", Where::kStart, Op::kRecurrent},
    {"rnn", Where::kStart, Op::kRecurrent},
    {"relu", Where::kEnd, Op::kActivation},
    {"relu", Where::kStart, Op::kActivation},
    {"elu", Where::kStart, Op::kActivation},
    {"celu", Where::kStart, Op::kActivation},
    {"selu", Where::kStart, Op::kActivation},
    {"glu", Where::kStart, Op::kActivation},
    {"gelu", Where::kAnywhere, Op::kActivation},
    {"silu", Where::kAnywhere, Op::kActivation},
    {"swish", Where::kAnywhere, Op::kActivation},
    {"mish", Where::kAnywhere, Op::kActivation},
    {"softmax", Where::kAnywhere, Op::kActivation},
    {"sigmoid", Where::kAnywhere, Op::kActivation},
    {"tanh", Where::kStart, Op::kActivation},
    {"softplus", Where::kStart, Op::kActivation},
    {"softsign", Where::kStart, Op::kActivation},
    {"softmin", Where::kStart, Op::kActivation},
    {"hard", Where::kStart, Op::kActivation},
    {"shrink", Where::kEnd, Op::kActivation},
    {"threshold", Where::kStart, Op::kActivation},
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
      return name.contains(rule.text);
  }
  return false;
}

// The types of most rows in most models. OpOf() looks them up before it tries the rules.
struct Common {
  std::string_view type;
  Op op;
};
constexpr std::array kCommon{
    Common{"AdaptiveAvgPool2d", Op::kPool},
    Common{"BatchNorm1d", Op::kBatchNorm},
    Common{"BatchNorm2d", Op::kBatchNorm},
    Common{"BatchNormAct2d", Op::kBatchNorm},
    Common{"Conv1D", Op::kLinear},  // the linear layer of Transformers, not a Conv1d
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

// True if the type is itself a pool. "SelectAdaptivePool2d" only contains one.
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
  if (layer.kind == RowKind::kBlock)
    return op == Op::kBatchNorm || op == Op::kLayerNorm || op == Op::kAttention;
  if (op == Op::kActivation || op == Op::kDropout || op == Op::kReshape) return true;
  if (op == Op::kPool) return IsPlainPool(layer.type);
  return layer.params > 0;
}

}  // namespace carma::model

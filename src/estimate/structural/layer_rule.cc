#include "estimate/structural/layer_rule.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace carma::estimate {
namespace {

bool StartsWithAny(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts,
                             [&](std::string_view start) { return name.starts_with(start); });
}

bool HasAny(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.contains(part); });
}

bool IsAny(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// A name may contain several of these words, so the order of the checks matters.
Role RoleOf(std::string_view name) {
  if (name.starts_with("dropout") || name.ends_with("dropout")) return Role::kDropout;
  if (StartsWithAny(name, {"identity", "flatten", "unflatten", "droppath", "stochasticdepth",
                           "patchdropout", "format", "rearrange"})) {
    return Role::kTransparent;
  }
  if (StartsWithAny(name, {"starrelu", "squaredrelu"})) return Role::kKeepsTwo;
  if (HasAny(name, {"maxpool"})) return Role::kMaxPool;
  if (HasAny(name, {"avgpool"})) return Role::kAvgPool;
  // For these functions, the derivative depends only on the result.
  if (IsAny(name, {"relu", "sigmoid", "tanh"}) || name.starts_with("softmax") ||
      name.starts_with("logsoftmax")) {
    return Role::kKeepsOutput;
  }
  if (StartsWithAny(
          name, {"gelu",     "silu",     "swish", "hard",        "mish",     "relu6",     "prelu",
                 "celu",     "selu",     "elu",   "leakyrelu",   "rrelu",    "quickgelu", "newgelu",
                 "softplus", "softsign", "glu",   "gatedlinear", "fastgelu", "logsigmoid"})) {
    return Role::kKeepsInput;
  }
  if (HasAny(name, {"norm", "affine", "layerscale", "grn", "inplaceabn"}) ||
      StartsWithAny(name, {"frn", "filterresponse"}) || IsAny(name, {"scale", "scale2d"})) {
    return Role::kNorm;
  }
  if (HasAny(name, {"conv", "linear"}) || name.ends_with("embed")) return Role::kMatrix;
  if (StartsWithAny(
          name, {"sequential", "modulelist", "unroll", "reroll", "upsample", "pixelshuffle",
                 "downsample", "zeropad", "channelshuffle", "permute", "interpolate", "resample",
                 "fastadaptive", "selectadaptive", "globalpool", "posembed"}) ||
      name == "activation") {
    return Role::kKeepsNothing;
  }
  return Role::kOther;
}

// Returns true if the block sums parallel paths during training and is merged into one convolution
// afterwards.
bool IsReparameterised(std::string_view name) {
  return StartsWithAny(name, {"mobileoneblock", "repvgg", "qarepvgg", "reparam", "repconv"}) ||
         name == "repmixer";
}

}  // namespace

LayerRule RuleOf(std::string_view type) {
  const std::string name = base::ToLower(type);
  LayerRule rule;
  rule.role = RoleOf(name);
  rule.convolution = HasAny(name, {"conv"}) && type != "Conv1D";  // Conv1D: GPT-2's linear layer
  rule.linear = HasAny(name, {"linear"}) || type == "Conv1D";
  rule.batch_norm = HasAny(name, {"batchnorm"});
  rule.norm_with_activation = HasAny(name, {"evonorm", "filterresponse"}) ||
                              (HasAny(name, {"norm"}) && HasAny(name, {"act", "tlu"}));
  rule.row_statistics = HasAny(name, {"layernorm"});
  rule.images = name.ends_with("2d");
  rule.attention = HasAny(name, {"attention", "attn"});
  rule.gate = HasAny(name, {"sigmoid", "gate", "softmax"});
  rule.softmax = name.starts_with("softmax");
  rule.elementwise = rule.role == Role::kNorm || rule.role == Role::kKeepsOutput ||
                     rule.role == Role::kKeepsTwo || rule.role == Role::kDropout ||
                     (rule.role == Role::kKeepsInput && !StartsWithAny(name, {"glu", "gated"})) ||
                     (rule.role == Role::kTransparent && !HasAny(name, {"flatten", "rearrange"}));
  rule.same_padding = name.ends_with("same");
  rule.standardized = HasAny(name, {"stdconv"});
  rule.norm_free = HasAny(name, {"scaledstdconv"});
  rule.leaky = IsAny(name, {"leakyrelu", "elu"});
  rule.parallel_branches = IsReparameterised(name);
  rule.wraps_one = HasAny(name, {"conv", "norm", "linear"});
  if (IsAny(name, {"lstm"})) rule.extra_outputs = 6;
  if (IsAny(name, {"gru"})) rule.extra_outputs = 5;
  rule.relative_positions = HasAny(name, {"relativeattention"});
  if (HasAny(name, {"quickgelu", "rmsnorm"})) rule.extra_outputs = 1;
  if (HasAny(name, {"newgelu"}))
    rule.extra_outputs = 3;  // written out in Python: powers, tanh, product
  if (HasAny(name, {"evonorm", "filterresponse", "globalresponse"})) rule.extra_outputs = 2;
  return rule;
}

}  // namespace carma::estimate

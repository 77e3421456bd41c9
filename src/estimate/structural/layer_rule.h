// Derives from a layer's class name which tensors the layer keeps for its backward pass.
#pragma once

#include <string_view>

namespace carma::estimate {

enum class Role {
  kTransparent,  // passes its input on: Identity, Flatten, DropPath
  kDropout,      // keeps a mask and creates a new tensor if its rate is above zero
  kMatrix,       // convolution or linear layer: keeps its input for the weight's gradient
  kNorm,         // keeps its input
  kKeepsInput,   // activation whose derivative needs the input
  kKeepsOutput,  // activation whose derivative needs the output
  kKeepsTwo,     // StarReLU and the like: relu(x) twice, once for the square
  kMaxPool,      // keeps its input and the position of each maximum
  kAvgPool,      // keeps its input, unless it is a plain mean
  kKeepsNothing,
  kOther,  // no rule fits
};

struct LayerRule {
  Role role = Role::kOther;
  bool convolution = false;
  bool linear = false;
  bool batch_norm = false;
  bool norm_with_activation = false;  // a block that includes the activation: BatchNormAct2d
  bool row_statistics = false;        // keeps mean and deviation of every row: LayerNorm
  bool images = false;                // works on [batch, channels, height, width]
  bool attention = false;             // named like an attention module, regardless of its role
  bool gate = false;                  // its result is multiplied by another tensor
  bool softmax = false;
  bool elementwise = false;   // the output has the same shape as the input
  bool same_padding = false;  // pads a copy of its input if the stride requires it
  bool standardized = false;  // uses a normalised copy of its weight
  bool norm_free = false;     // belongs to a network that scales activations instead of normalising
  bool leaky = false;         // keeps its output if it works in place, else its input
  bool parallel_branches = false;   // the training form of a re-parameterised block
  bool wraps_one = false;           // named like "ConvNormAct": a container that adds nothing
  bool relative_positions = false;  // attention that no fused kernel supports
  double extra_outputs = 0;         // number of additional tensors of the output's size
};

// The rule for a class name, regardless of case.
LayerRule RuleOf(std::string_view type);

}  // namespace carma::estimate

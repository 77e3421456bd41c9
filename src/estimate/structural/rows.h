// The rows of a layer list, each with the rule for its type and, once the graph is built (graph.h),
// the tensors that it reads and keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "estimate/structural/layer_rule.h"
#include "estimate/structural/trail.h"
#include "model/layers.h"

namespace carma::estimate {

// The role of a row in a training step. kNone: the row keeps nothing that grows with the batch.
enum class Step {
  kNone,
  kContainer,  // the modules inside have their own rows
  kBlock,      // a container whose own code uses parameters
  kAttention,  // a block or container whose products may have no rows
  kPassing,    // passes its input on: Identity, Dropout
  kOperation,
};

// Which tensor the backward pass of a row needs (keep_rules.h).
enum class Holds { kNothing, kInput, kOutput, kCopy };

// Facts about the current attention module, collected from the operations since the last norm.
struct SinceNorm {
  int products = 0;  // linear layers and convolutions
  bool convolution = false;
  double matrix = 0;       // elements of a [tokens, tokens] softmax that no attention has claimed
  std::int64_t heads = 0;  // heads of the last [tokens, tokens] matrix, from any row
};

struct Row {
  enum class Kind { kOperation, kBlock, kContainer };

  const model::Layer* layer = nullptr;
  const LayerRule* rule = nullptr;
  Kind kind = Kind::kOperation;
  bool knows_input = false;
  double in = 0, out = 0;           // elements per sample; includes windows once the graph is made
  double dropout = 0;               // dropout rate
  bool before_attention = false;    // the next block to finish is an attention module
  std::optional<std::size_t> ways;  // first row of its block of parallel paths

  // The following fields are set by the graph.
  Step step = Step::kNone;
  Holds holds = Holds::kNothing;
  int before = Tensor::kNobody;  // the last tensor before this row
  int read = Tensor::kNobody;    // the tensor that the row reads; kNobody for containers and blocks
  int entry = Tensor::kNobody;   // first row of parallel paths: the block's input
  bool given_unseen = false;     // kPassing: code between the modules made its input
  bool scaled_copy = false;  // reads a scaled copy, like the first product of a block without norms
  SinceNorm seen;            // set for attention modules
};

struct TypeRule {
  std::string_view type;
  LayerRule rule;
};

struct Rows {
  std::deque<TypeRule> rules;  // the rows point to these rules
  std::vector<Row> rows;       // one per layer, in the same order
};

// The list must outlive the result.
Rows RowsOf(const model::LayerList& list);

// Returns true if the shape is [..., tokens, tokens].
bool IsAttentionMatrix(const model::Shape& shape);
// Returns true if the row multiplies by a weight: convolutions, linear layers, and unknown types
// with parameters.
bool IsProduct(const Row& row);

}  // namespace carma::estimate

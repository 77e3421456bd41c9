#include "estimate/structural/kept.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/layer_rule.h"
#include "estimate/structural/trail.h"
#include "estimate/structural/unseen_input.h"
#include "model/op.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::RowKind;
using model::Shape;
using Maker = Tensor::Maker;

constexpr double kBytes = 4;          // of one element
constexpr double kIndex = 8;          // of the place of a maximum
constexpr double kRowStatistics = 8;  // mean and deviation of a row
constexpr std::int64_t kLeastVocabulary = 4096;

double Elements(const Shape& shape) {
  return static_cast<double>(shape.Elements());
}

std::int64_t Dimension(const Shape& shape, std::size_t i) {
  return std::abs(shape[i]);
}

bool IsAttentionMatrix(const Shape& shape) {
  const std::size_t rank = shape.rank();
  return rank >= 3 && shape.last() > 1 && shape[rank - 1] == shape[rank - 2];
}

bool HasRole(const LayerRule& rule, std::initializer_list<Role> roles) {
  return std::find(roles.begin(), roles.end(), rule.role) != roles.end();
}

enum class Kind { kOperation, kBlock, kContainer };

Kind KindOf(const Layer& layer) {
  switch (layer.kind) {
    case RowKind::kLeaf:
      return Kind::kOperation;
    case RowKind::kBlock:
      return Kind::kBlock;
    case RowKind::kContainer:
      return Kind::kContainer;
    case RowKind::kUnknown:
      break;
  }
  return model::IsOperation(layer) ? Kind::kOperation : Kind::kContainer;
}

struct Row {
  const Layer* layer = nullptr;
  const LayerRule* rule = nullptr;
  Kind kind = Kind::kOperation;
  bool knows_input = false;
  double in = 0, out = 0;                   // elements per sample
  std::optional<std::size_t> branch_block;  // first row of the re-parameterised block it is in
  bool before_attention = false;            // the next block to finish is an attention
};

class Walk {
 public:
  explicit Walk(const LayerList& list) : list_(list) {}
  Kept Run();

 private:
  void MakeRows();
  void MarkBranches(std::size_t container);
  void Step(std::size_t index);
  void Container(const Row& row);
  void Block(const Row& row);
  void Attention(const Row& row);
  void RelativeAttention(const Row& row);
  void KeepBlockedAttention(const Row& row, int input);
  void Transparent(const Row& row);
  void Operation(std::size_t index);
  void EnterBranch(const Row& row);
  int InputOf(std::size_t index);
  int JumpTo(std::size_t index);
  bool IsParallelBranch(std::size_t index, int source) const;
  void KeepFor(const Row& row, int input);
  void Emit(const Row& row, int input);
  void CountConvolution(const Row& row, int input);
  void CountLogits();

  bool HasCurrent() const { return current_ != Tensor::kNobody; }
  Tensor& Current() { return trail_[current_]; }
  const Tensor& Current() const { return trail_[current_]; }
  void Keep(int index) {
    Tensor& tensor = trail_[index];
    if (std::exchange(tensor.kept, true)) return;
    kept_.per_sample += kBytes * tensor.elements;
    if (tensor.maker == Maker::kFunction) kept_.guessed += kBytes * tensor.elements;
  }
  void KeepMore(double elements) { kept_.per_sample += kBytes * elements; }
  void KeepGuess(double elements) {
    KeepMore(elements);
    kept_.guessed += kBytes * elements;
  }
  int NewestOf(double elements) const {
    return trail_.Newest(
        [&](const Tensor& each) { return each.elements == elements && Trail::IsReadable(each); });
  }
  void BecomeFunction(double elements, const Shape& shape) {
    current_ = trail_.Add({.elements = elements, .shape = shape, .maker = Maker::kFunction});
  }

  const LayerList& list_;
  std::vector<std::pair<std::string_view, LayerRule>> rules_;
  std::vector<Row> rows_;
  std::vector<int> entries_;  // by first row of a re-parameterised block: what it was given
  Trail trail_;
  UnseenInput unseen_;
  int current_ = Tensor::kNobody;
  int matrices_since_norm_ = 0;
  bool convolution_since_norm_ = false;
  double attention_matrix_ = 0;  // elements of one that a softmax row showed and nobody claimed
  bool block_starts_ = true;
  bool leaves_only_ = true;
  Kept kept_;
};

// ---- rows ----

void Walk::MakeRows() {
  std::vector<std::size_t> rule_of(list_.layers.size());
  for (std::size_t i = 0; i < list_.layers.size(); ++i) {
    const std::string_view type = list_.layers[i].type;
    const auto known = std::find_if(rules_.begin(), rules_.end(),
                                    [&](const auto& each) { return each.first == type; });
    rule_of[i] = static_cast<std::size_t>(known - rules_.begin());
    if (known == rules_.end()) rules_.emplace_back(type, RuleOf(type));
  }
  rows_.resize(list_.layers.size());
  bool attention = false;
  for (std::size_t i = rows_.size(); i-- > 0;) {
    Row& row = rows_[i];
    row.layer = &list_.layers[i];
    row.rule = &rules_[rule_of[i]].second;
    row.kind = KindOf(*row.layer);
    row.knows_input = !row.layer->in.empty();
    row.out = Elements(row.layer->out);
    row.in = Elements(row.layer->in);
    if (row.kind != Kind::kOperation) {
      attention = row.rule->attention;
      leaves_only_ = false;
    }
    row.before_attention = attention;
    kept_.weights.push_back(kBytes * static_cast<double>(row.layer->params));
  }
  std::sort(kept_.weights.rbegin(), kept_.weights.rend());
  entries_.assign(rows_.size(), Tensor::kNobody);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].rule->parallel_branches && rows_[i].kind != Kind::kOperation) MarkBranches(i);
  }
}

// The rows of a block stand before it. Names tell which they are; without names those are that can
// belong to such a block: convolutions, norms, what wraps one of them, and a last activation.
void Walk::MarkBranches(std::size_t container) {
  const std::string& name = rows_[container].layer->name;
  const auto belongs = [&](std::size_t at) {
    const Row& row = rows_[at];
    if (!name.empty()) return row.layer->name.starts_with(name + ".");
    if (row.kind != Kind::kOperation) return row.rule->wraps_one;
    return row.rule->convolution || HasRole(*row.rule, {Role::kNorm, Role::kTransparent}) ||
           at + 1 == container;
  };
  std::size_t first = container;
  while (first > 0 && belongs(first - 1) && !rows_[first - 1].branch_block) --first;
  for (std::size_t i = first; i < container; ++i) rows_[i].branch_block = first;
}

Kept Walk::Run() {
  MakeRows();
  for (std::size_t i = 0; i < rows_.size(); ++i) Step(i);
  CountLogits();
  return std::move(kept_);
}

void Walk::Step(std::size_t index) {
  Row& row = rows_[index];
  if (row.layer->out.empty()) return;
  double windows = 1;
  if (!row.knows_input && row.kind != Kind::kContainer) {
    UnseenInput::Read read =
        unseen_.Of(*row.layer, *row.rule, HasCurrent() ? &Current() : nullptr, trail_);
    if (!HasCurrent() && !list_.input.empty()) read.elements = Elements(list_.input);
    row.in = read.elements;
    windows = read.windows;
    row.out *= windows;
  }
  const bool grows = row.layer->out.ScalesWithBatch() ||
                     (row.knows_input ? row.layer->in.ScalesWithBatch() : true);
  if (!grows) return;
  if (row.kind == Kind::kContainer) return Container(row);
  if (row.rule->standardized) {
    kept_.constant += kBytes * static_cast<double>(row.layer->params);
  }
  EnterBranch(row);
  if (HasRole(*row.rule, {Role::kTransparent, Role::kDropout}) && row.layer->params == 0) {
    return Transparent(row);
  }
  if (row.kind == Kind::kBlock && row.rule->attention) return Attention(row);
  if (row.kind == Kind::kBlock && !HasRole(*row.rule, {Role::kNorm, Role::kKeepsTwo})) {
    return Block(row);
  }
  Operation(index);
}

// ---- containers and blocks: what code between the modules must have done ----

void Walk::Container(const Row& row) {
  if (!row.rule->wraps_one) {
    trail_.LeaveBlock(current_);
    block_starts_ = true;
  }
  if (row.rule->attention && !row.knows_input) Attention(row);
  if (!HasCurrent() || row.out == Current().elements || !row.layer->out.ScalesWithBatch()) return;
  // Windows: the printed size lacks a factor.
  if (!row.knows_input && Current().elements > row.out && row.layer->out.rank() == 3 &&
      !Current().shape.empty() && Current().shape.last() == row.layer->out.last() &&
      std::fmod(Current().elements, row.out) == 0) {
    return;
  }
  if (Current().maker == Maker::kGate && Current().elements < row.out) {  // x * gate
    const int factor = trail_.Newest([&](const Tensor& each) { return each.elements == row.out; });
    if (factor != Tensor::kNobody) Keep(factor);
    Keep(current_);
  } else if (Current().maker == Maker::kMatrix) {
    Keep(current_);
  }
  BecomeFunction(row.out, row.layer->out);
}

// Query, key and value without rows of their own, and attention weights that are kept because no
// fused kernel made them.
void Walk::Attention(const Row& row) {
  const bool unseen = matrices_since_norm_ <= 1;
  const bool own_weights = row.kind == Kind::kBlock;
  const double matrix = std::exchange(attention_matrix_, 0.0);
  if (row.rule->relative_positions) return RelativeAttention(row);
  if (own_weights && unseen) KeepGuess((matrices_since_norm_ == 1 ? 3 : 4) * row.out);
  if (!own_weights && unseen && matrix == 0 && matrices_since_norm_ == 1 &&
      !convolution_since_norm_ && row.layer->out.rank() == 3) {
    KeepGuess(3 * row.out);
  }
  if (matrix > 0 && unseen) {
    KeepGuess((own_weights ? 3 : 6) * row.out + matrix);
    kept_.unfused_attention = true;
  }
}

// Transformer-XL's: positions enter between the products, so no fused kernel can do it. Kept are
// query, key and value, the queries with either bias, keys of positions, the result and its copy;
// softmax's result, the same with holes, and its copy in the order of the last product.
void Walk::RelativeAttention(const Row& row) {
  constexpr double kVectors = 8;
  constexpr double kMatrices = 3;
  constexpr double kHeadWidth = 64;  // the usual one; a summary does not say it
  const Shape& out = row.layer->out;
  if (out.rank() != 3) return;
  const auto tokens = static_cast<double>(Dimension(out, 1));
  const double matrix = row.out / kHeadWidth * tokens;
  KeepGuess(kVectors * row.out + kMatrices * matrix);
  kept_.masks += matrix;
  kept_.per_sample += matrix;
  kept_.largest = std::max(kept_.largest, kBytes * matrix);
  kept_.unfused_attention = true;
}

// Query, key and value in [batch, blocks, tokens, width]: fused kernels take four dimensions with
// the heads among them, so the matrix of every block is made and kept.
void Walk::KeepBlockedAttention(const Row& row, int input) {
  constexpr double kHeadWidth = 32;  // the usual one of nets that work on blocks
  const Shape& in = row.knows_input ? row.layer->in : trail_[input].shape;
  const Shape& out = row.layer->out;
  if (!row.rule->linear || !row.before_attention || row.out != 3 * row.in) return;
  if (in.rank() != 4 || out.rank() != 4 || in[0] != -1 || in[1] != out[1] || in[2] != out[2])
    return;
  const auto tokens = static_cast<double>(Dimension(in, 2));
  KeepGuess(row.in / kHeadWidth * tokens);
  kept_.unfused_attention = true;
}

// Vectors of the channel size that belong to the block itself: layer scale, x * gamma keeps x.
void Walk::Block(const Row& row) {
  const Shape& out = row.layer->out;
  const std::int64_t params = row.layer->params;
  for (const std::int64_t channels :
       {Dimension(out, out.rank() - 1), out.rank() > 1 ? Dimension(out, 1) : 0}) {
    if (channels > 1 && params % channels == 0 && params / channels <= 4) {
      const std::int64_t vectors = params / channels;
      return KeepMore(static_cast<double>(vectors) * row.out);
    }
  }
}

void Walk::Transparent(const Row& row) {
  const double rate =
      row.rule->role != Role::kDropout ? 0 : row.layer->dropout.value_or(list_.dropout.value_or(0));
  if (rate > 0) {
    kept_.per_sample += row.out;  // the mask, one byte each
    kept_.masks += row.out;
  }
  if (row.knows_input && HasCurrent() && row.in != Current().elements) {
    // Code between the modules made what this one was given.
    const int previous = current_;
    BecomeFunction(row.in, row.layer->in);
    if (row.rule->role == Role::kDropout && IsAttentionMatrix(row.layer->in)) {
      Keep(current_);    // softmax's result
      KeepMore(row.in);  // and what was scaled, biased or masked before it
      kept_.unfused_attention = true;
    }
    if (trail_[previous].maker == Maker::kMatrix) Keep(previous);
  }
  if (rate <= 0 || !HasCurrent()) return;
  // The feed-forward part of PyTorch's own transformer layer: a function between its two linear
  // layers, whose result is kept beside the copy with holes.
  if (leaves_only_ && Current().linear && Current().elements > trail_[Current().from].elements &&
      Current().shape.rank() == 3) {
    KeepMore(Current().elements);
  }
  current_ = trail_.Add({.elements = Current().elements,
                         .shape = Current().shape,
                         .maker = Maker::kOther,
                         .from = current_});
}

// ---- operations ----

// Every convolution of a re-parameterised block reads what the block was given, and so does a norm
// that follows no convolution.
void Walk::EnterBranch(const Row& row) {
  if (!row.branch_block || !HasCurrent()) return;
  int& entry = entries_[*row.branch_block];
  if (entry == Tensor::kNobody) entry = current_;
  if (trail_[entry].elements != row.in) return;
  const bool convolution = row.rule->role == Role::kMatrix && row.rule->convolution;
  const bool lone_norm = row.rule->role == Role::kNorm && Current().maker != Maker::kMatrix;
  if (convolution || lone_norm) current_ = entry;
}

void Walk::Operation(std::size_t index) {
  const Row& row = rows_[index];
  const int input = InputOf(index);
  KeepFor(row, input);
  Emit(row, input);
}

// A row reads the current tensor if the size fits. If not, it goes back to an earlier one, or code
// between the modules has made a new one.
int Walk::InputOf(std::size_t index) {
  const Row& row = rows_[index];
  const Layer& layer = *row.layer;
  int input = current_;
  if (!HasCurrent()) {
    input = trail_.AddPrivate({.elements = row.in, .shape = layer.in, .maker = Maker::kInput});
  } else if (Current().elements != row.in) {
    input = JumpTo(index);
  }
  // A norm of a norm makes no sense: it is a second branch, of what the first one's convolution
  // read.
  if (row.rule->batch_norm && input == current_ && trail_[input].maker == Maker::kNorm) {
    const int product = trail_[input].from;
    if (product != Tensor::kNobody && trail_[product].maker == Maker::kMatrix &&
        trail_[product].from != Tensor::kNobody &&
        trail_[trail_[product].from].elements == row.in) {
      input = trail_[product].from;
    }
  }
  // TensorFlow's way to pad: a copy, wherever the stride leaves a rest.
  const Shape& read = layer.in.empty() ? trail_[input].shape : layer.in;
  if (row.rule->same_padding && read.rank() == 4 && layer.out.rank() == 4 &&
      Dimension(layer.out, 2) < Dimension(read, 2)) {
    input = trail_.AddPrivate({.elements = row.in, .shape = read, .maker = Maker::kFunction});
  }
  return input;
}

int Walk::JumpTo(std::size_t index) {
  const Row& row = rows_[index];
  const bool product = Current().maker == Maker::kMatrix;
  const int source = NewestOf(row.in);
  const bool branch = product && IsParallelBranch(index, source);
  const Tensor made{.elements = row.in, .shape = row.layer->in, .maker = Maker::kFunction};
  if ((Current().maker == Maker::kGate || (product && !branch)) &&
      Current().elements < row.in) {  // x * gate: both factors and the product stay
    const int factor = trail_.Newest([&](const Tensor& each) { return each.elements == row.in; });
    if (factor != Tensor::kNobody) Keep(factor);
    Keep(current_);
    return trail_.AddPrivate(made);
  }
  const bool larger = Current().elements > row.in;
  if (product && !branch) Keep(current_);  // query, key, value: read by a matrix product
  // PyTorch's own attention has no row but these; it copies its result to [length, batch, …].
  if (leaves_only_ && product && Current().linear && Current().elements == 3 * row.in) {
    KeepMore(row.in);
  }
  if (source != Tensor::kNobody && !(product && larger && !branch)) return source;
  Tensor shaped = made;
  if (shaped.shape.empty() && row.layer->out.rank() == 4) {
    // The channels of a concatenation, so that its other readers know it again.
    const auto positions = static_cast<double>(row.layer->out[2] * row.layer->out[3]);
    shaped.shape.Push(-1);
    shaped.shape.Push(std::max<std::int64_t>(1, std::llround(row.in / positions)));
    shaped.shape.Push(row.layer->out[2]);
    shaped.shape.Push(row.layer->out[3]);
  }
  return trail_.Add(shaped);
}

// The last convolution is the shortcut of a residual block: the next row reads what it read, and
// its result waits for a sum with a later one of its size. A sum keeps nothing.
bool Walk::IsParallelBranch(std::size_t index, int source) const {
  const Tensor& current = Current();
  if (current.linear || source == Tensor::kNobody || !trail_[source].kept) return false;
  if (current.from != source || rows_[index].before_attention) return false;
  const std::size_t end = std::min(rows_.size(), index + Trail::kMemory);
  return std::any_of(rows_.begin() + static_cast<std::ptrdiff_t>(index),
                     rows_.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const Row& row) { return row.out == current.elements; });
}

void Walk::KeepFor(const Row& row, int input) {
  const LayerRule& rule = *row.rule;
  const Layer& layer = *row.layer;
  const double read = trail_[input].elements;
  KeepMore(rule.extra_outputs * row.out);
  switch (rule.role) {
    case Role::kMatrix:
    case Role::kNorm:
      Keep(input);
      // Nets without norms scale what enters a block: the activation keeps its result, the
      // convolution the scaled copy.
      if (rule.norm_free && std::exchange(trail_[input].opens_block, false)) KeepMore(read);
      KeepBlockedAttention(row, input);
      if (rule.row_statistics) {
        // LayerNorm2d works on the channels of an image, the others on the last dimension.
        const std::size_t width = rule.images && layer.out.rank() == 4 ? 1 : layer.out.rank() - 1;
        kept_.per_sample +=
            kRowStatistics * row.out / static_cast<double>(Dimension(layer.out, width));
      }
      break;
    case Role::kKeepsInput: {
      const bool in_place = layer.inplace || layer.kind == RowKind::kUnknown;
      if (rule.leaky && in_place) break;  // its output is enough, see Emit
      // In place over something that another backward pass needs: a copy is made.
      if (layer.inplace && trail_[input].kept) {
        KeepMore(read);
      } else {
        Keep(input);
      }
      break;
    }
    case Role::kKeepsTwo:
      KeepMore(row.out);
      break;
    case Role::kMaxPool:
      Keep(input);
      kept_.per_sample += kIndex * row.out;
      kept_.masks += (kIndex - kBytes) * row.out;
      break;
    case Role::kAvgPool:
      // A mean over everything needs the shape alone.
      if (row.out > read / 64 && row.out <= read) Keep(input);
      break;
    case Role::kOther:
      Keep(input);
      // A block printed as one row: two convolutions, each with what its norm and its activation
      // keep, the last of which the next row reads.
      if (list_.collapsed && layer.params > 0 && layer.out.rank() == 4) KeepGuess(3 * row.out);
      break;
    case Role::kTransparent:
    case Role::kDropout:
    case Role::kKeepsOutput:
    case Role::kKeepsNothing:
      break;
  }
}

void Walk::Emit(const Row& row, int input) {
  const LayerRule& rule = *row.rule;
  const Layer& layer = *row.layer;
  Tensor made{.elements = row.out, .shape = layer.out, .from = input};
  const bool weighted_leaf = rule.role == Role::kOther && layer.params > 0;
  made.opens_block = block_starts_ && rule.role == Role::kKeepsOutput && !layer.inplace;
  if (rule.role == Role::kMatrix || weighted_leaf) {
    block_starts_ = false;
    made.maker = Maker::kMatrix;
    made.linear = rule.linear || weighted_leaf;
    ++matrices_since_norm_;
    convolution_since_norm_ = convolution_since_norm_ || rule.convolution;
    CountConvolution(row, input);
    kept_.has_embedding = kept_.has_embedding || model::OpOf(layer.type) == model::Op::kEmbedding;
  } else if (rule.role == Role::kNorm && !rule.norm_with_activation) {
    made.maker = Maker::kNorm;
    matrices_since_norm_ = 0;
    convolution_since_norm_ = false;
  } else if (rule.gate) {
    made.maker = Maker::kGate;
  }
  if (rule.softmax && IsAttentionMatrix(layer.out)) attention_matrix_ = row.out;
  if (layer.out.ScalesWithBatch()) {
    kept_.largest = std::max(kept_.largest, kBytes * row.out);
  }
  current_ = trail_.Add(made);
  const bool leaky_in_place = rule.leaky && (layer.inplace || layer.kind == RowKind::kUnknown);
  if (rule.role == Role::kKeepsOutput || leaky_in_place) Keep(current_);
}

// Dense, with a kernel of more than one position: these have workspaces.
void Walk::CountConvolution(const Row& row, int input) {
  const Layer& layer = *row.layer;
  if (!row.rule->convolution) return;
  kept_.has_conv = true;
  if (layer.out.rank() != 4) return;
  const Shape& read = layer.in.empty() ? trail_[input].shape : layer.in;
  const auto channels = static_cast<double>(read.rank() == 4 ? Dimension(read, 1) : 3);
  const double kernel = static_cast<double>(layer.params) /
                        std::max(1.0, channels * static_cast<double>(Dimension(layer.out, 1)));
  if (kernel > 1.5) {
    kept_.widest_conv = std::max(kept_.widest_conv, kBytes * (row.in + row.out));
  }
}

// Scores over a vocabulary for every token: the caller holds them, log-softmax keeps its result,
// and the gradient is as large.
void Walk::CountLogits() {
  if (!HasCurrent() || !kept_.has_embedding || !Current().linear) return;
  const Shape& shape = Current().shape;
  if (shape.rank() == 3 && shape.last() >= kLeastVocabulary) {
    kept_.logits = 3 * kBytes * Current().elements;
  }
}

}  // namespace

Kept CountKept(const LayerList& list) {
  if (!LacksShapes(list)) return Walk(list).Run();
  const LayerList shaped = WithAssumedTokens(list);
  return Walk(shaped).Run();
}

}  // namespace carma::estimate

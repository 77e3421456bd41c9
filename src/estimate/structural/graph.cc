#include "estimate/structural/graph.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "estimate/structural/corrections.h"
#include "estimate/structural/keep_rules.h"
#include "estimate/structural/unseen_input.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::Shape;
using Kind = Row::Kind;
using Maker = Tensor::Maker;

// Returns true if `part` is half of `whole`, as after chunk(): the last dimension is half as wide,
// and all other dimensions are equal.
bool IsHalf(const Shape& part, const Shape& whole) {
  if (part.empty() || part.rank() != whole.rank() || whole.last() != 2 * part.last()) return false;
  return std::equal(part.dimensions().begin(), part.dimensions().end() - 1,
                    whole.dimensions().begin());
}

// Returns true if `part` is a slice of `whole`, as after split(): fewer channels at the same
// resolution.
bool IsSlice(const Shape& part, const Shape& whole) {
  return part.rank() == 4 && whole.rank() == 4 && part[2] == whole[2] && part[3] == whole[3] &&
         part[1] < whole[1];
}

class GraphMaker {
 public:
  explicit GraphMaker(const LayerList& list) : list_(list) {}
  Graph Run();

 private:
  void Take(Row& row);
  bool FindSizes(Row& row);
  void Container(Row& row);
  void Attention(Row& row);
  void Passing(Row& row);
  void Operation(Row& row);
  bool NormAroundActivation(Row& row);
  int InputOf(Row& row);
  int ReadElsewhere(const Row& row);
  int Join(const Row& row);
  bool HidesWindows(const Row& row) const;
  // The tensor read by the last matrix product before the current tensor.
  int OriginOfCurrent() const {
    int index = current_;
    while (index != Tensor::kNobody && graph_.trail[index].maker != Maker::kMatrix)
      index = graph_.trail[index].from;
    return index == Tensor::kNobody ? 0 : graph_.trail[index].from;
  }
  // Returns true if a row of this size reads the concatenated results of all slices, and ends the
  // current split in that case.
  bool JoinsSlices(double elements) {
    if (split_ == Tensor::kNobody || graph_.trail[split_].elements != elements) return false;
    split_ = Tensor::kNobody;
    return true;
  }
  // Returns true if the row reads the next slice, i.e. if the newest tensor comes directly from
  // another slice's convolution, without a norm.
  bool ReadsNextSlice(const Row& row) const {
    if (split_ == Tensor::kNobody || !row.rule->convolution) return false;
    return Current().maker == Maker::kMatrix && Current().from == split_ &&
           IsSlice(row.layer->in, graph_.trail[split_].shape);
  }
  bool IsShortcut(const Row& row, int source) const;
  void Emit(const Row& row);

  bool HasCurrent() const { return current_ != Tensor::kNobody; }
  const Tensor& Current() const { return graph_.trail[current_]; }
  void Keep(int index) { graph_.trail[index].kept = true; }
  // A gate with a lower resolution than the other factor is upsampled before the multiplication.
  // The backward pass needs the upsampled copy and the other factor. If no module produced the
  // other factor, it is a concatenation.
  bool KeepEnlarged(const Row& row) {
    const Shape& gate = Current().shape;
    const Shape& out = row.layer->out;
    if (gate.rank() != 4 || out.rank() != 4 || gate[1] != out[1]) return false;
    if (gate[2] <= 1 || gate[2] >= out[2]) return false;
    const int factor = graph_.trail.Newest([&](const Tensor& each) { return each.shape == out; });
    if (factor != Tensor::kNobody) Keep(factor);
    for (int i = factor == Tensor::kNobody ? 0 : 1; i < 2; ++i)
      graph_.trail.AddPrivate({.elements = row.out, .maker = Maker::kFunction, .kept = true});
    return true;
  }
  // The backward pass of x * gate needs both factors.
  void KeepFactors(double elements) {
    const int factor =
        graph_.trail.Newest([&](const Tensor& each) { return each.elements == elements; });
    if (factor != Tensor::kNobody) Keep(factor);
    Keep(current_);
  }
  void MakeUnseen(double elements, const Shape& shape) {
    current_ = graph_.trail.Add({.elements = elements, .shape = shape, .maker = Maker::kFunction});
  }

  const LayerList& list_;
  Graph graph_;
  UnseenInput unseen_;
  int current_ = Tensor::kNobody;  // the newest tensor
  int split_ = Tensor::kNobody;    // the tensor that is being split into slices
  SinceNorm seen_;
  bool block_starts_ = true;
  bool weighs_values_ = false;  // the last row computed attention weights
};

Graph GraphMaker::Run() {
  graph_.types = RowsOf(list_);
  graph_.collapsed = list_.collapsed;
  for (const Row& row : graph_.rows()) graph_.leaves_only &= row.kind == Kind::kOperation;
  graph_.trail.Reserve(graph_.rows().size() + 1);
  for (Row& row : graph_.rows()) Take(row);
  graph_.last = current_;
  return std::move(graph_);
}

void GraphMaker::Take(Row& row) {
  if (row.layer->out.empty() || !FindSizes(row)) return;
  if (row.kind == Kind::kContainer) return Container(row);
  current_ = CorrectReading(CorrectsReading::kBeforeSizes, graph_, row, current_);
  const Role role = row.rule->role;
  if ((role == Role::kTransparent || role == Role::kDropout) && row.layer->params == 0)
    return Passing(row);
  if (row.kind == Kind::kBlock && row.rule->attention) return Attention(row);
  if (row.kind == Kind::kBlock && role != Role::kNorm && role != Role::kKeepsTwo) {
    row.step = Step::kBlock;
    return;
  }
  Operation(row);
}

// Derives the sizes that the summary does not show for this row. Returns false if the row's sizes
// do not grow with the batch.
bool GraphMaker::FindSizes(Row& row) {
  if (row.knows_input) return row.layer->out.ScalesWithBatch() || row.layer->in.ScalesWithBatch();
  if (row.kind == Kind::kContainer) return true;
  const UnseenInput::Read read =
      unseen_.Of(*row.layer, *row.rule, HasCurrent() ? &Current() : nullptr, graph_.trail);
  row.in = HasCurrent() || list_.input.empty() ? read.elements : Elements(list_.input);
  row.out *= read.windows;
  return true;
}

// ---- containers: the effect of code between the modules ----

void GraphMaker::Container(Row& row) {
  row.step = Step::kContainer;
  if (!row.rule->wraps_one) {
    graph_.trail.LeaveBlock(current_);
    block_starts_ = true;
  }
  if (row.rule->attention && !row.knows_input) Attention(row);
  if (!HasCurrent() || row.out == Current().elements || !row.layer->out.ScalesWithBatch()) return;
  if (HidesWindows(row)) return;
  if (Current().maker == Maker::kGate && Current().elements < row.out) {
    if (!KeepEnlarged(row)) KeepFactors(row.out);
  } else if (!JoinsSlices(row.out) && Current().maker == Maker::kMatrix) {
    Keep(current_);
  }
  MakeUnseen(row.out, row.layer->out);
}

// Returns true if the printed batch dimension also contains the attention windows, which makes the
// printed size too small by a factor of the number of windows.
bool GraphMaker::HidesWindows(const Row& row) const {
  const Shape& out = row.layer->out;
  return !row.knows_input && Current().elements > row.out && out.rank() == 3 &&
         !Current().shape.empty() && Current().shape.last() == out.last() &&
         std::fmod(Current().elements, row.out) == 0;
}

void GraphMaker::Attention(Row& row) {
  row.step = Step::kAttention;
  row.seen = seen_;
  seen_.matrix = 0;
  seen_.heads = 0;
}

void GraphMaker::Passing(Row& row) {
  row.step = Step::kPassing;
  if (row.knows_input && HasCurrent() && row.in != Current().elements) {
    if (Current().maker == Maker::kMatrix) Keep(current_);
    MakeUnseen(row.in, row.layer->in);
    row.given_unseen = true;
    // The dropout reads the output of a softmax that has no row of its own.
    if (row.rule->role == Role::kDropout && IsAttentionMatrix(row.layer->in)) Keep(current_);
  }
  if (IsAttentionMatrix(row.layer->in)) {
    weighs_values_ = true;
    seen_.heads = Dimension(row.layer->in, 1);
  }
  row.read = current_;
  if (row.dropout <= 0 || !HasCurrent()) return;
  current_ = graph_.trail.Add(
      {.elements = Current().elements, .shape = Current().shape, .from = current_});
}

// ---- operations ----

// A norm that calls its own activation is printed after the activation, even though it runs first.
// The norm therefore takes the input that the activation seems to read, and adds no tensor.
bool GraphMaker::NormAroundActivation(Row& row) {
  if (row.kind != Kind::kBlock || !row.rule->norm_with_activation || !HasCurrent()) return false;
  if (&row == graph_.rows().data() || Current().from == Tensor::kNobody) return false;
  const Row& inside = *(&row - 1);
  const Tensor& source = graph_.trail[Current().from];
  const bool activates = inside.step == Step::kOperation && inside.kind == Kind::kOperation &&
                         inside.layer->params == 0 && inside.read == Current().from;
  if (!activates || source.maker != Maker::kMatrix || source.elements != row.in) return false;
  row.step = Step::kOperation;
  row.before = current_;
  row.read = Current().from;
  row.holds = Holds::kInput;
  // An activation that keeps its input keeps the norm's result, which is a separate tensor.
  if (source.kept) row.read = graph_.trail.AddPrivate({.elements = row.in, .shape = row.layer->in});
  Keep(row.read);
  return true;
}

void GraphMaker::Operation(Row& row) {
  if (NormAroundActivation(row)) return;
  row.step = Step::kOperation;
  row.before = current_;
  row.read = InputOf(row);
  Tensor& read = graph_.trail[row.read];
  row.holds = HoldsOf(row, read);
  if (row.holds == Holds::kInput) read.kept = true;
  if (row.rule->norm_free) row.scaled_copy = std::exchange(read.opens_block, false);
  Emit(row);
  if (row.holds == Holds::kOutput) Keep(current_);
}

int GraphMaker::InputOf(Row& row) {
  int input = current_;
  if (!HasCurrent()) {
    input = graph_.trail.AddPrivate(
        {.elements = row.in, .shape = row.layer->in, .maker = Maker::kInput});
  } else if (ReadsNextSlice(row)) {
    input = split_;
  } else if (Current().elements != row.in) {
    input = ReadElsewhere(row);
  }
  return CorrectReading(CorrectsReading::kAfterSizes, graph_, row, input);
}

// Finds the tensor that a row reads instead of the newest tensor: an earlier tensor, or a tensor
// made by code between the modules.
int GraphMaker::ReadElsewhere(const Row& row) {
  const Tensor& current = Current();
  // The row reads one half of the newest tensor. This view keeps the whole tensor alive.
  if (row.rule->row_statistics && IsHalf(row.layer->in, current.shape)) return current_;
  if (JoinsSlices(row.in)) return Join(row);
  // The product of attention weights and values, reordered by token, is a new tensor even if an
  // older tensor has the same size.
  if (weighs_values_ && row.rule->linear) return Join(row);
  const int source = graph_.trail.Newest(
      [&](const Tensor& each) { return each.elements == row.in && Trail::IsReadable(each); });
  const bool product = current.maker == Maker::kMatrix && !IsShortcut(row, source);
  if ((current.maker == Maker::kGate || product) && current.elements < row.in) {
    KeepFactors(row.in);
    return graph_.trail.AddPrivate(
        {.elements = row.in, .shape = row.layer->in, .maker = Maker::kFunction});
  }
  // A tensor older than the last product's input belongs to another block, so this row reads a
  // slice of the newest tensor.
  if (source < OriginOfCurrent() && !product && row.rule->convolution &&
      IsSlice(row.layer->in, current.shape)) {
    split_ = current_;
    return current_;
  }
  if (product) Keep(current_);  // attention keeps query, key and value
  // True if this linear layer and the previous one have the same input and width, as in x * act(g).
  const bool sibling = source != Tensor::kNobody && current.linear && row.rule->linear &&
                       row.out == current.elements && current.from == source;
  if (sibling) return source;
  if (source != Tensor::kNobody && !(product && current.elements > row.in)) return source;
  return Join(row);
}

int GraphMaker::Join(const Row& row) {
  Tensor made{.elements = row.in, .shape = row.layer->in, .maker = Maker::kFunction};
  const Shape& out = row.layer->out;
  if (made.shape.empty() && out.rank() == 4) {
    // Records the channels of the concatenation so that later rows that read it are recognised.
    const auto positions = static_cast<double>(out[2] * out[3]);
    made.shape.Push(-1);
    made.shape.Push(std::max<std::int64_t>(1, std::llround(row.in / positions)));
    made.shape.Push(out[2]);
    made.shape.Push(out[3]);
  }
  return graph_.trail.Add(made);
}

// Returns true if the last convolution is the shortcut of a residual block. The next row then reads
// this convolution's input, not its result. The result is added to another tensor later, and the
// backward pass of a sum does not need the terms.
bool GraphMaker::IsShortcut(const Row& row, int source) const {
  const Tensor& current = Current();
  if (current.maker != Maker::kMatrix || current.linear) return false;
  if (source == Tensor::kNobody || !graph_.trail[source].kept) return false;
  if (current.from != source || row.before_attention) return false;
  const std::vector<Row>& rows = graph_.rows();
  const auto first = rows.begin() + (&row - rows.data());
  const auto end = first + std::min<std::ptrdiff_t>(Trail::kMemory, rows.end() - first);
  return std::any_of(first, end, [&](const Row& each) { return each.out == current.elements; });
}

void GraphMaker::Emit(const Row& row) {
  const LayerRule& rule = *row.rule;
  const Layer& layer = *row.layer;
  Tensor made{.elements = row.out, .shape = layer.out, .from = row.read};
  made.opens_block = block_starts_ && rule.role == Role::kKeepsOutput && !layer.inplace;
  if (IsProduct(row)) {
    made.maker = Maker::kMatrix;
    made.linear = rule.linear || rule.role == Role::kOther;
    block_starts_ = false;
    ++seen_.products;
    seen_.convolution |= rule.convolution;
  } else if (rule.role == Role::kNorm && !rule.norm_with_activation) {
    made.maker = Maker::kNorm;
    seen_.products = 0;
    seen_.convolution = false;
  } else if (rule.gate) {
    made.maker = Maker::kGate;
  }
  weighs_values_ = rule.softmax && IsAttentionMatrix(layer.out);
  if (weighs_values_) {
    seen_.matrix = row.out;
    seen_.heads = Dimension(layer.out, 1);
  }
  current_ = graph_.trail.Add(made);
}

}  // namespace

Graph MakeGraph(const LayerList& list) {
  return GraphMaker(list).Run();
}

}  // namespace carma::estimate

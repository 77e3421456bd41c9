#include "estimate/structural/keep_rules.h"

#include "estimate/structural/every_entry.h"

namespace carma::estimate {
namespace {

constexpr double kIndexBytes = 8;      // position of one maximum
constexpr double kStatisticBytes = 8;  // mean and deviation of a row
constexpr double kMaskBytes = 1;

template <Role kRole>
bool Is(const Row& row, const Tensor&) {
  return row.rule->role == kRole;
}

// torchsummary does not show whether an activation works in place. Most activations that can work
// in place do.
bool IsLeakyInPlace(const Row& row, const Tensor&) {
  return row.rule->leaky && (row.layer->inplace || row.layer->kind == model::RowKind::kUnknown);
}

bool OverwritesWhatIsHeld(const Row& row, const Tensor& read) {
  return row.rule->role == Role::kKeepsInput && row.layer->inplace && read.kept;
}

bool IsMeanOfParts(const Row& row, const Tensor& read) {
  return row.rule->role == Role::kAvgPool && row.out > read.elements / 64 &&
         row.out <= read.elements;
}

constexpr KeepRule kKeepRules[] = {
    {"convolution, linear layer", &Is<Role::kMatrix>, Holds::kInput,
     "derivatives.yaml, convolution and linear: the gradient of the weight needs the input"},
    {"norm", &Is<Role::kNorm>, Holds::kInput,
     "derivatives.yaml, native_batch_norm, native_layer_norm, native_group_norm: input"},
    {"ReLU, Sigmoid, Tanh, Softmax", &Is<Role::kKeepsOutput>, Holds::kOutput,
     "derivatives.yaml, relu, sigmoid, tanh, _softmax: result"},
    {"LeakyReLU, ELU in place", &IsLeakyInPlace, Holds::kOutput,
     "derivatives.yaml, leaky_relu_, elu_: result"},
    {"any other in-place activation that overwrites a kept tensor", &OverwritesWhatIsHeld,
     Holds::kCopy, "autograd saves a clone of the overwritten tensor"},
    {"any other activation: GELU, SiLU, Mish, PReLU …", &Is<Role::kKeepsInput>, Holds::kInput,
     "derivatives.yaml, gelu, silu, mish, hardtanh, _prelu_kernel: self"},
    {"max pooling", &Is<Role::kMaxPool>, Holds::kInput,
     "derivatives.yaml, max_pool2d_with_indices: self"},
    {"mean over parts of the input", &IsMeanOfParts, Holds::kInput,
     "derivatives.yaml, avg_pool2d: self; a mean over everything needs only the sizes"},
    {"a type without a rule", &Is<Role::kOther>, Holds::kInput,
     "judgement: most operations need their inputs"},
};

constexpr BesidesRule kBesidesRules[] = {
    {"LayerNorm", "8 bytes per row",
     [](const Row& row) {
       return row.rule->row_statistics && row.rule->role == Role::kNorm &&
              row.step == Step::kOperation;
     },
     [](const Row& row, Kept& kept) {
       // LayerNorm2d normalises over the channels of an image, other norms over the last dimension.
       const model::Shape& out = row.layer->out;
       const bool channels = row.rule->images && out.rank() == 4;
       const std::int64_t width = Dimension(out, channels ? 1 : out.rank() - 1);
       kept.per_sample += kStatisticBytes * row.out / static_cast<double>(width);
     },
     "derivatives.yaml, native_layer_norm: mean and rstd"},
    {"max pooling", "8 bytes per maximum",
     [](const Row& row) {
       return row.rule->role == Role::kMaxPool && row.step == Step::kOperation;
     },
     [](const Row& row, Kept& kept) {
       kept.per_sample += kIndexBytes * row.out;
       kept.masks += (kIndexBytes - kElementBytes) * row.out;
     },
     "derivatives.yaml, max_pool2d_with_indices: the indices are int64"},
    {"Dropout with a rate above 0", "1 byte per element",
     [](const Row& row) { return row.step == Step::kPassing && row.dropout > 0; },
     [](const Row& row, Kept& kept) {
       kept.per_sample += kMaskBytes * row.out;
       kept.masks += kMaskBytes * row.out;
     },
     "derivatives.yaml, native_dropout: saves a bool mask and returns a new tensor"},
    {"StarReLU, SquaredReLU", "4 bytes per element",
     [](const Row& row) {
       return row.rule->role == Role::kKeepsTwo && row.step == Step::kOperation;
     },
     [](const Row& row, Kept& kept) { kept.AddElements(row.out); },
     "relu keeps its result, and pow keeps its input"},
    {"layers written out in Python: NewGELU, QuickGELU, RMSNorm, EvoNorm …",
     "4 bytes per element for each further operation",
     [](const Row& row) { return row.rule->extra_outputs > 0 && row.step == Step::kOperation; },
     [](const Row& row, Kept& kept) { kept.AddElements(row.rule->extra_outputs * row.out); },
     "source code: powers, products and tanh each save their inputs"},
    {"weight-standardised convolution", "4 bytes per weight, independent of the batch",
     [](const Row& row) {
       return row.rule->standardized && row.step != Step::kNone &&
              row.kind != Row::Kind::kContainer;
     },
     [](const Row& row, Kept& kept) {
       kept.constant += kElementBytes * static_cast<double>(row.layer->params);
     },
     "source code: convolution saves the normalised copy of the weight"},
};

}  // namespace

std::span<const KeepRule> KeepRules() {
  return kKeepRules;
}

Holds HoldsOf(const Row& row, const Tensor& read) {
  Holds holds = Holds::kNothing;
  ForEveryEntry<kKeepRules>([&](const KeepRule& each) {
    if (holds == Holds::kNothing && each.fits(row, read)) holds = each.holds;
  });
  return holds;
}

std::span<const BesidesRule> BesidesRules() {
  return kBesidesRules;
}

void AddBesides(const Graph& graph, const Row& row, Kept& kept) {
  if (row.holds == Holds::kCopy) kept.AddElements(graph.trail[row.read].elements);
  ForEveryEntry<kBesidesRules>([&](const BesidesRule& each) {
    if (each.fits(row)) each.add(row, kept);
  });
}

}  // namespace carma::estimate

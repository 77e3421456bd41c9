#include "estimate/structural/corrections.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "estimate/structural/every_entry.h"

namespace carma::estimate {
namespace {

using model::Shape;
using Kind = Row::Kind;
using Maker = Tensor::Maker;

// ---- readings ----

// Some blocks have parallel paths, which are merged into one convolution after training. Every
// convolution in such a block reads the block's input, and so does every norm that does not follow
// a convolution.
int ParallelWays(Graph& graph, Row& row, int input) {
  if (!row.ways || input == Tensor::kNobody) return input;
  int& entry = graph.rows()[*row.ways].entry;
  if (entry == Tensor::kNobody) entry = input;
  if (graph.trail[entry].elements != row.in) return input;
  const bool convolution = row.rule->role == Role::kMatrix && row.rule->convolution;
  const bool lone_norm =
      row.rule->role == Role::kNorm && graph.trail[input].maker != Maker::kMatrix;
  return convolution || lone_norm ? entry : input;
}

// Two norms in a row make no sense, so the second norm must be on a branch. It reads the input of
// the convolution before the first norm.
int NormAfterNorm(Graph& graph, Row& row, int input) {
  const Trail& trail = graph.trail;
  if (!row.rule->batch_norm || input != row.before || trail[input].maker != Maker::kNorm)
    return input;
  const int product = trail[input].from;
  if (product == Tensor::kNobody || trail[product].maker != Maker::kMatrix) return input;
  const int source = trail[product].from;
  return source != Tensor::kNobody && trail[source].elements == row.in ? source : input;
}

// If the stride does not divide the size, the convolution reads a padded copy.
int TensorFlowPadding(Graph& graph, Row& row, int input) {
  const Shape& out = row.layer->out;
  const Shape read = row.layer->in.empty() ? graph.trail[input].shape : row.layer->in;
  if (!row.rule->same_padding || read.rank() != 4 || out.rank() != 4 ||
      Dimension(out, 2) >= Dimension(read, 2)) {
    return input;
  }
  return graph.trail.AddPrivate({.elements = row.in, .shape = read, .maker = Maker::kFunction});
}

// A gated layer, x * act(g): two linear layers of equal width read the same, narrower input, and
// one of them is followed by an activation. The backward pass needs the results of both layers, the
// output of the activation, and the product, which has no row.
int GatedForward(Graph& graph, Row& row, int input) {
  Trail& trail = graph.trail;
  // Some models have a norm between the product and the next layer.
  const bool norm = row.rule->role == Role::kNorm && row.rule->row_statistics;
  if (!norm && (row.rule->role != Role::kMatrix || !row.rule->linear)) return input;
  if (input != row.before) return input;
  const auto linear = [&](int index) {
    return index != Tensor::kNobody && trail[index].maker == Maker::kMatrix && trail[index].linear;
  };
  const bool bare = linear(input);  // false: after an activation
  const int product = bare ? input : trail[input].from;
  if (!linear(product) || trail[product].elements != row.in) return input;
  const int source = trail[product].from;
  if (source == Tensor::kNobody || trail[source].elements >= row.in) return input;
  int activated = bare ? Tensor::kNobody : input;
  int other = Tensor::kNobody;
  for (int index = product - 1; index > source && index > product - 6; --index) {
    const Tensor& each = trail[index];
    if (each.elements != row.in) continue;
    const bool sibling = linear(index) && each.from == source;
    const bool behind = linear(each.from) && trail[each.from].from == source;
    if (sibling && other == Tensor::kNobody) other = index;
    if (behind && activated == Tensor::kNobody && !linear(index)) activated = index;
  }
  if (other == Tensor::kNobody) return input;
  trail[product].kept = trail[other].kept = true;
  if (activated != Tensor::kNobody) {
    trail[activated].kept = true;
  } else {
    trail[trail.AddPrivate({.elements = row.in, .maker = Maker::kFunction})].kept = true;
  }
  return trail.AddPrivate({.elements = row.in, .shape = row.layer->in, .maker = Maker::kFunction});
}

// A tensor is split into slices, and all slices but one pass through a convolution. Before each
// convolution, the previous convolution's result is added to the slice. The last row reads the
// concatenation of all slices. A variant without these sums pools the last slice.
int SlicesInSteps(Graph& graph, Row& row, int input) {
  constexpr std::ptrdiff_t kReach = 48;  // rows
  if (!row.rule->convolution || row.in != row.out || input != row.before) return input;
  const std::vector<Row>& rows = graph.rows();
  const auto here = &row - rows.data();
  const auto is_step = [&](const Row& each) {
    return each.rule->convolution && each.in == row.in && each.out == row.in;
  };
  double whole = 0;
  int steps = 1;
  for (auto i = here - 1; i >= std::max<std::ptrdiff_t>(0, here - kReach); --i) {
    const Row& each = rows[static_cast<std::size_t>(i)];
    if (each.kind == Kind::kContainer || each.out == row.in) {
      steps += is_step(each) ? 1 : 0;
      continue;
    }
    whole = each.out;
    break;
  }
  const double parts = whole / row.in;
  if (steps == 1 || parts < 3 || parts != std::floor(parts)) return input;
  const auto end = std::min(std::ssize(rows), here + kReach);
  for (auto i = here + 1; i < end; ++i) {
    const Row& each = rows[static_cast<std::size_t>(i)];
    if (each.kind == Kind::kContainer) continue;
    if (each.in != row.in) {
      const bool joins = each.in == whole && static_cast<double>(steps) == parts - 1;
      return joins ? graph.trail.AddPrivate(
                         {.elements = row.in, .shape = row.layer->out, .maker = Maker::kFunction})
                   : input;
    }
    if (each.rule->role == Role::kAvgPool) return input;
    steps += is_step(each) ? 1 : 0;
  }
  return input;
}

// "0.82 -> 0.96" is the ratio of counted to exact bytes without and with the correction.
constexpr ReadingCorrection kReadingCorrections[] = {
    {"parallel ways", "RepVGG, MobileOne",
     "timm's byobnet.py and fastvit.py; no measured model has such a block",
     CorrectsReading::kBeforeSizes, &ParallelWays},
    {"norm after norm", "RepGhostNet", "repghostnet_200: 1.20 -> 1.00",
     CorrectsReading::kAfterSizes, &NormAfterNorm},
    {"TensorFlow-style padding", "MixNet, PNASNet",
     "tf_mixnet_l: 0.82 -> 0.96, pnasnet5large: 0.88 -> 1.01", CorrectsReading::kAfterSizes,
     &TensorFlowPadding},
    {"gated feed-forward", "SwiGLU of Llama and similar models",
     "source code: silu keeps its input, and the product keeps both factors",
     CorrectsReading::kAfterSizes, &GatedForward},
    {"slices in steps", "Res2Net", "res2net101_26w_4s: 0.89 -> 1.02", CorrectsReading::kAfterSizes,
     &SlicesInSteps},
};

// ---- bytes ----

// Returns true if the attention module's products have no rows, so query, key and value are missing
// from the summary.
bool HidesProducts(const Row& attention) {
  return attention.seen.products <= 1;
}

// The code of the attention module multiplies by the module's own weights, and these products have
// no rows. The backward pass needs query, key and value, and a copy of the input if the product
// after attention has no row either.
void AttentionInOneRow(const Graph&, const Row& row, Kept& kept) {
  if (row.kind != Kind::kBlock || row.rule->relative_positions || !HidesProducts(row)) return;
  kept.AddElements((row.seen.products == 1 ? 3 : 4) * row.out);
}

// The container's only row is the product after attention. The backward pass also needs query, key
// and value, which have no rows.
void AttentionAfterOneProduct(const Graph&, const Row& row, Kept& kept) {
  if (row.kind == Kind::kBlock || row.rule->relative_positions) return;
  if (row.seen.products == 1 && !row.seen.convolution && row.seen.matrix == 0 &&
      row.layer->out.rank() == 3) {
    kept.AddElements(3 * row.out);
  }
}

// An attention module whose softmax has its own row does not use a fused kernel, so the backward
// pass also needs the softmax's input.
void AttentionWithSoftmax(const Graph&, const Row& row, Kept& kept) {
  if (row.rule->relative_positions || row.seen.matrix <= 0 || !HidesProducts(row)) return;
  kept.AddElements((row.kind == Kind::kBlock ? 3 : 6) * row.out + row.seen.matrix);
  kept.unfused_attention = true;
}

// Attention with position biases from a table, which has one number per head and per offset within
// a square of tokens. No fused kernel is used, so the backward pass needs the softmax's result: one
// matrix per head.
void AttentionWithDistances(const Graph&, const Row& row, Kept& kept) {
  const Shape& in = row.layer->in;
  const Shape& out = row.layer->out;
  if (row.kind != Kind::kBlock || !HidesProducts(row) || in.rank() < 3 || in[0] != -1) return;
  const auto tokens_of = [](const Shape& shape) {
    return shape.rank() == 4 ? Dimension(shape, 2) * Dimension(shape, 3) : Dimension(shape, 1);
  };
  const std::int64_t keys = tokens_of(in);
  if (keys < 2 || row.layer->params == 0 || row.layer->params % keys != 0) return;
  const std::int64_t heads = row.layer->params / keys;
  const std::int64_t width = in.rank() == 4 ? Dimension(in, 1) : in.last();
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(keys)));
  if (heads < 2 || heads * 8 > width || side * side != keys) return;
  kept.AddElements(static_cast<double>(heads * keys * tokens_of(out)));
  kept.unfused_attention = true;
}

// Positions are added between the products, so no fused kernel can be used.
void RelativePositions(const Graph&, const Row& row, Kept& kept) {
  // Kept: query, key and value; the queries with each bias; the position keys; the result and its
  // copy.
  constexpr double kVectors = 8;
  // Also kept: the softmax's result before and after dropout, and its copy with the dimensions in
  // the order that the last product needs.
  constexpr double kMatrices = 3;
  constexpr double kHeadWidth = 64;  // XLNet's d_head, which a summary does not show
  const Shape& out = row.layer->out;
  if (!row.rule->relative_positions || out.rank() != 3) return;
  const auto tokens = static_cast<double>(Dimension(out, 1));
  const double matrix = row.out / kHeadWidth * tokens;
  kept.AddElements(kVectors * row.out + kMatrices * matrix);
  kept.masks += matrix;
  kept.per_sample += matrix;
  kept.largest = std::max(kept.largest, kElementBytes * matrix);
  kept.unfused_attention = true;
}

// Query, key and value have a block dimension besides the heads, but fused kernels accept only four
// dimensions. PyTorch therefore computes the attention matrix of every block and keeps it for the
// backward pass.
void AttentionOverBlocks(const Graph& graph, const Row& row, Kept& kept) {
  constexpr double kHeadWidth = 32;  // NesT's head width, which a summary does not show
  if (row.rule->role != Role::kMatrix || !row.rule->linear || !row.before_attention) return;
  if (row.out != 3 * row.in) return;
  const Shape& in = row.knows_input ? row.layer->in : graph.trail[row.read].shape;
  const Shape& out = row.layer->out;
  if (in.rank() != 4 || out.rank() != 4 || in[0] != -1 || in[1] != out[1] || in[2] != out[2])
    return;
  kept.AddElements(row.in / kHeadWidth * static_cast<double>(Dimension(in, 2)));
  kept.unfused_attention = true;
}

// A dropout reads the result of a softmax that has no row. The backward pass needs this result and
// also the softmax's scaled, biased or masked input.
void AttentionWithDropout(const Graph&, const Row& row, Kept& kept) {
  if (!row.given_unseen || row.rule->role != Role::kDropout) return;
  if (!IsAttentionMatrix(row.layer->in)) return;
  kept.AddElements(row.in);
  kept.wide += kElementBytes * row.in;  // softmax's result
  kept.unfused_attention = true;
}

// Two linear layers mix the heads of [tokens, tokens, heads], with a softmax between them. The
// backward pass needs the softmax's result and the copy of it that the second layer reads.
void HeadsThatTalk(const Graph& graph, const Row& row, Kept& kept) {
  const Shape& in = row.layer->in;
  if (!row.rule->linear || in.rank() != 4 || in[1] != in[2] || in != row.layer->out) return;
  if (row.before == Tensor::kNobody) return;
  const Tensor& before = graph.trail[row.before];
  if (before.maker == Maker::kMatrix && before.linear && before.shape == in) {
    kept.AddElements(row.in);
    kept.unfused_attention = true;
  }
}

// A linear layer over pairs of tokens computes a second matrix of attention weights, based on the
// tokens' distances. The two matrices are blended with one coefficient per head and normalised to a
// sum of 1. The backward pass needs the results of both softmaxes, and the input and result of the
// division.
void AttentionThatMixes(const Graph& graph, const Row& row, Kept& kept) {
  constexpr double kMatrices = 4;
  const Shape& in = row.layer->in;
  if (row.given_unseen || row.rule->role != Role::kDropout || row.read == Tensor::kNobody) return;
  const Tensor& read = graph.trail[row.read];
  if (!IsAttentionMatrix(in) || in.rank() != 4 || !read.linear || read.shape.rank() != 4) return;
  const Shape& made = read.shape;  // [batch, tokens, tokens, heads]
  if (made[1] != in.last() || made[2] != in.last() || made.last() != in[1] || made == in) return;
  if (read.from == Tensor::kNobody || graph.trail[read.from].shape.last() == in[1]) return;
  kept.AddElements(kMatrices * row.in);
  kept.wide += 2 * kElementBytes * row.in;
  kept.unfused_attention = true;
}

// A module with parameters computes position scores, [..., queries, keys], from the queries, so no
// fused kernel is used. The backward pass needs the softmax's result and two copies of the queries,
// one for each product (with the keys, with the positions). If the queries are in blocks, the
// backward pass also needs overlapping copies of the keys and values.
void ScoresOfPositions(const Graph&, const Row& row, Kept& kept) {
  const Shape& in = row.layer->in;
  const Shape& out = row.layer->out;
  if (row.rule->role != Role::kKeepsNothing || row.layer->params == 0) return;
  if (in.rank() < 3 || in.rank() != out.rank() || in.last() == out.last()) return;
  for (std::size_t i = 0; i + 1 < in.rank(); ++i) {
    if (in[i] != out[i]) return;
  }
  kept.AddElements(row.out + 2 * row.in);
  kept.wide += kElementBytes * row.out;
  if (in.rank() == 4) {
    const auto queries = static_cast<double>(Dimension(in, 2));
    kept.AddElements(2 * row.out / queries * static_cast<double>(in.last()));
  }
  kept.unfused_attention = true;
}

// The values form an image with one channel, [batch, 1, height, width, values]. A convolution turns
// this image into one matrix (keys by values) per position. Multiplying the queries of all heads by
// these matrices makes a copy of each matrix for every head. The number of heads is derived from
// the norm of the queries, which is listed before the norm of the values.
void MatricesOfPositions(const Graph& graph, const Row& row, Kept& kept) {
  const Shape& in = row.layer->in;
  const Shape& out = row.layer->out;
  if (!row.rule->convolution || in.rank() != 5 || out.rank() != 5 || in[1] != 1) return;
  int norms = 0;
  for (int index = row.before; index > 0 && index > row.before - 8; --index) {
    const Tensor& each = graph.trail[index];
    if (each.maker != Maker::kNorm || each.shape.rank() != 4 || ++norms < 2) continue;
    const auto heads = static_cast<double>(Dimension(each.shape, 1) / Dimension(out, 1));
    return kept.AddElements(std::max(0.0, heads - 1) * row.out);
  }
}

// Half of a tensor passes through a norm and a linear layer, and is then multiplied by the other
// half. The product is kept for the backward pass.
void GateOfHalfWidth(const Graph& graph, const Row& row, Kept& kept) {
  if (!row.rule->linear || row.read == Tensor::kNobody) return;
  const Tensor& read = graph.trail[row.read];
  if (read.maker != Maker::kNorm || read.from == Tensor::kNobody || row.out != row.in) return;
  if (graph.trail[read.from].elements == 2 * read.elements) kept.AddElements(row.out);
}

// Attention that compares queries and keys by their cosines, scaled by one learned number per head,
// with plain matrix products. The backward pass needs the queries and keys before and after
// normalisation. It also needs a copy of the values, besides the tensor that contains them.
void AttentionOfUnitVectors(const Graph&, const Row& row, Kept& kept) {
  if (row.kind != Kind::kBlock || row.seen.heads < 2 || row.layer->params != row.seen.heads) return;
  constexpr int kMostProducts = 3;  // with more products, these numbers mix matrices instead
  if (row.seen.products > kMostProducts) return;
  kept.AddElements(3 * row.out);
}

// torch.nn.MultiheadAttention has rows only for its products. It copies its result to [length,
// batch], and the backward pass needs this copy.
void TorchAttention(const Graph& graph, const Row& row, Kept& kept) {
  if (!graph.leaves_only || row.before == Tensor::kNobody) return;
  const Tensor& before = graph.trail[row.before];
  if (before.maker == Maker::kMatrix && before.linear && before.elements == 3 * row.in)
    kept.AddElements(row.in);
}

// torch.nn.TransformerEncoderLayer applies an activation between its two linear layers. The
// backward pass needs the activation's output both before and after dropout.
void TorchFeedForward(const Graph& graph, const Row& row, Kept& kept) {
  if (!graph.leaves_only || row.dropout <= 0 || row.read == Tensor::kNobody) return;
  const Tensor& read = graph.trail[row.read];
  if (read.linear && read.elements > graph.trail[read.from].elements && read.shape.rank() == 3)
    kept.AddElements(read.elements);
}

// A block that itself holds one parameter per channel has a layer scale. The product x * gamma
// keeps x for the backward pass.
void LayerScale(const Graph&, const Row& row, Kept& kept) {
  const Shape& out = row.layer->out;
  const std::int64_t params = row.layer->params;
  for (const std::int64_t channels :
       {Dimension(out, out.rank() - 1), out.rank() > 1 ? Dimension(out, 1) : 0}) {
    if (channels > 1 && params % channels == 0 && params / channels <= 4)
      return kept.AddElements(static_cast<double>(params / channels) * row.out);
  }
}

// Networks without norms scale a block's input. The activation keeps its result for the backward
// pass, and the convolution keeps a scaled copy of that result.
void BlockWithoutNorms(const Graph& graph, const Row& row, Kept& kept) {
  if (row.scaled_copy) kept.AddElements(graph.trail[row.read].elements);
}

// Several tensors of the same size are stacked to [ways, channels, height, width] and multiplied by
// a weight for each tensor and channel. The backward pass of this product needs the stack.
void StackedWays(const Graph&, const Row& row, Kept& kept) {
  const Shape& in = row.layer->in;
  const Shape& out = row.layer->out;
  if (in.rank() != 5 || out.rank() != 5 || in[1] != out[1] || in[2] != out[2]) return;
  if (out[3] != 1 || out[4] != 1 || in[3] * in[4] <= 1) return;
  kept.AddElements(Elements(in));
}

// A block printed as one row, with two convolutions that are each followed by a norm and an
// activation. Each norm and activation keeps one tensor. The last of these four tensors is counted
// where the next row reads it.
void BlockInOneRow(const Graph& graph, const Row& row, Kept& kept) {
  if (graph.collapsed && row.rule->role == Role::kOther && row.layer->params > 0 &&
      row.layer->out.rank() == 4) {
    kept.AddElements(3 * row.out);
  }
}

// As above, "0.78 -> 0.95" is the ratio of counted to exact bytes.
constexpr KeptCorrection kKeptCorrections[] = {
    {"attention in one row", "BEiT, LeViT",
     "beit_large_patch16_224: 0.78 -> 0.95, levit_256: 0.77 -> 0.92", Step::kAttention,
     &AttentionInOneRow},
    {"attention after one product", "BEiT, parsed from text",
     "beit_large_patch16_224 without shapes: 0.80 -> 1.00 of the bytes counted with shapes",
     Step::kAttention, &AttentionAfterOneProduct},
    {"attention with a softmax", "Swin v2", "swinv2_base_window12_192: 0.70 -> 0.96",
     Step::kAttention, &AttentionWithSoftmax},
    {"attention with distances", "LeViT", "levit_384_s8: 0.70 -> 1.00", Step::kAttention,
     &AttentionWithDistances},
    {"stacked ways", "SKNet", "skresnet34: 0.63 -> 0.94; stack makes a copy, and mul keeps it",
     Step::kContainer, &StackedWays},
    {"relative positions", "XLNet",
     "xlnet_base_cased: 218 -> 830 MiB per sample, according to the source code", Step::kAttention,
     &RelativePositions},
    {"attention over blocks", "NesT", "nest_base: 0.74 -> 1.00", Step::kOperation,
     &AttentionOverBlocks},
    {"attention with a dropout", "Swin v2 CR", "swinv2_cr_base_384: 0.70 -> 0.86", Step::kPassing,
     &AttentionWithDropout},
    {"talking heads", "CaiT", "cait_s24_384: 0.80 -> 0.98", Step::kOperation, &HeadsThatTalk},
    {"attention on unit vectors", "Swin v2 CR",
     "swinv2_cr_base_384: 0.89 -> 0.99, according to F.normalize's source code", Step::kAttention,
     &AttentionOfUnitVectors},
    {"attention that mixes two matrices", "ConViT",
     "convit_tiny: 0.61 -> 1.02; softmax keeps its result, mul keeps both factors, and div keeps "
     "its input",
     Step::kPassing, &AttentionThatMixes},
    {"position scores", "BoTNet, HaloNet",
     "halonet_h1: 0.37 -> 1.09, according to the attention's source code", Step::kOperation,
     &ScoresOfPositions},
    {"position matrices", "LambdaNetworks",
     "lambda_resnet26t: 0.89 -> 1.00; matmul copies what it broadcasts", Step::kOperation,
     &MatricesOfPositions},
    {"half-width gate", "gMLP", "gmlp_s16_224: 0.62 -> 1.00; mul keeps both factors",
     Step::kOperation, &GateOfHalfWidth},
    {"PyTorch's own attention", "generated encoders",
     "enc-163: 7 % of all kept bytes, according to torch.nn.MultiheadAttention", Step::kOperation,
     &TorchAttention},
    {"PyTorch's own feed-forward part", "generated encoders",
     "enc-057: 22 % of all kept bytes, according to torch.nn.TransformerEncoderLayer",
     Step::kPassing, &TorchFeedForward},
    {"layer scale", "BEiT, timm's ViT xp", "beit_large_patch16_224: 0.84 -> 0.95", Step::kBlock,
     &LayerScale},
    {"block without norms", "NFNet", "nf_seresnet101: 0.80 -> 1.02", Step::kOperation,
     &BlockWithoutNorms},
    {"block in one row", "U-Net", "published summary: 106 -> 282 MiB per sample (a guess)",
     Step::kOperation, &BlockInOneRow},
};

}  // namespace

std::span<const ReadingCorrection> ReadingCorrections() {
  return kReadingCorrections;
}

int CorrectReading(CorrectsReading when, Graph& graph, Row& row, int input) {
  ForEveryEntry<kReadingCorrections>([&](const ReadingCorrection& each) {
    if (each.when == when) input = each.source(graph, row, input);
  });
  return input;
}

std::span<const KeptCorrection> KeptCorrections() {
  return kKeptCorrections;
}

void Correct(const Graph& graph, const Row& row, Kept& kept) {
  ForEveryEntry<kKeptCorrections>([&](const KeptCorrection& each) {
    if (each.step == row.step) each.add(graph, row, kept);
  });
}

}  // namespace carma::estimate

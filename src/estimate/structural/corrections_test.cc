#include "estimate/structural/corrections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimate/structural/graph.h"
#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::RowKind;

const model::Shape kSquare = Of({-1, 9, 32});       // 288: tokens of a square
const model::Shape kBlocks = Of({-1, 2, 5, 32});    // 320: two blocks of five tokens
const model::Shape kWeights = Of({-1, 2, 10, 10});  // 200: attention weights with two heads

const Layer kConv = Module("Conv2d", kImage, kMaps, 108);
const Layer kRelu = Module("ReLU", kMaps, kMaps);
const Layer kNorm = Module("LayerNorm", kWords, kWords, 16);

LayerList WithDropout(LayerList list) {
  list.dropout = 0.1;
  return list;
}

LayerList Collapsed(LayerList list) {
  list.collapsed = true;
  return list;
}

// For each kept-bytes correction, a small model and the bytes that the correction adds.
struct KeptExample {
  const char* correction;
  LayerList list;
  double elements;
};

std::vector<KeptExample> KeptExamples() {
  return {
      {"attention in one row",
       List({kNorm, Module("Linear", kWords, kWords, 72),
             Module("Attention", kWords, kWords, 216, false, RowKind::kBlock)}),
       3 * 80},
      {"attention after one product",
       List({kNorm, Module("Linear", kWords, kWords, 72),
             Module("Attention", {}, kWords, 0, false, RowKind::kContainer)}),
       3 * 80},
      {"attention with a softmax",
       List({kNorm, Module("Softmax", kWeights, kWeights), Module("Linear", kWords, kWords, 72),
             Module("WindowAttention", kWords, kWords, 100, false, RowKind::kBlock)}),
       3 * 80 + 200},
      {"relative positions",
       List({Module("XLNetRelativeAttention", kWords, kWords, 512, false, RowKind::kBlock)}),
       8 * 80 + (3 + 0.25) * 80 / 64 * 10},  // the mask has a quarter of a matrix's bytes
      {"attention over blocks",
       List({Module("Linear", kBlocks, Of({-1, 2, 5, 96}), 3168),
             Module("Attention", kBlocks, kBlocks, 0, false, RowKind::kContainer)}),
       2 * 5 * 5},
      {"attention with a dropout",
       List({Module("Linear", kWords, kTriple, 216), Module("Dropout", kWeights, kWeights)}), 200},
      {"attention with distances",  // two heads, nine distances
       List({Module("LayerNorm", kSquare, kSquare, 64), Module("Linear", kSquare, kSquare, 1056),
             Module("Attention", kSquare, kSquare, 18, false, RowKind::kBlock)}),
       2 * 9 * 9},
      {"stacked ways",
       List({kConv, Module("Attn", Of({-1, 2, 4, 8, 8}), Of({-1, 2, 4, 1, 1}), 0, false,
                           RowKind::kContainer)}),
       512},
      {"talking heads",
       List({Module("Linear", Of({-1, 10, 10, 2}), Of({-1, 10, 10, 2}), 6),
             Module("Linear", Of({-1, 10, 10, 2}), Of({-1, 10, 10, 2}), 6)}),
       200},
      {"attention on unit vectors",
       List({kNorm, Module("Linear", kWords, kTriple, 216), Module("Softmax", kWeights, kWeights),
             Module("Linear", kWords, kWords, 72),
             Module("WindowAttention", kWords, kWords, 2, false, RowKind::kBlock)}),
       3 * 80},
      {"attention that mixes two matrices",
       List({Module("Linear", Of({-1, 10, 10, 3}), Of({-1, 10, 10, 2}), 8),
             Module("Dropout", kWeights, kWeights)}),
       4 * 200},
      {"position scores",  // two blocks of five queries, each with seven keys
       List({Module("Conv2d", kImage, kMaps, 108),
             Module("PosEmbedRel", Of({-1, 2, 5, 4}), Of({-1, 2, 5, 7}), 36)}),
       70 + 2 * 40 + 2 * 2 * 7 * 4},
      {"position matrices",  // two heads, keys of width 2, values of width 4
       List({Module("BatchNorm2d", kMaps, kMaps, 8), Module("BatchNorm2d", kMaps, kMaps, 8),
             Module("Conv3d", Of({-1, 1, 8, 8, 4}), Of({-1, 2, 8, 8, 4}), 100)}),
       512},
      {"half-width gate",
       List({kNorm, Module("Linear", kWords, kHidden, 288), Module("GELU", kHidden, kHidden),
             Module("LayerNorm", Of({-1, 10, 16}), Of({-1, 10, 16}), 32),
             Module("Linear", Of({-1, 16, 10}), Of({-1, 16, 10}), 110),
             Module("Linear", Of({-1, 10, 16}), kWords, 136)}),
       160},
      {"PyTorch's own attention",
       List({Module("Linear", kWords, kTriple, 216), Module("Linear", kWords, kWords, 72)}), 80},
      {"PyTorch's own feed-forward part",
       WithDropout(
           List({Module("Linear", kWords, kHidden, 288), Module("Dropout", kHidden, kHidden),
                 Module("Linear", kHidden, kWords, 264)})),
       320},
      {"layer scale", List({kNorm, Module("Block", kWords, kWords, 16, false, RowKind::kBlock)}),
       2 * 80},
      {"block without norms",
       List({Module("ScaledStdConv2d", kImage, kMaps, 116),
             Module("Block", kImage, kMaps, 0, false, RowKind::kContainer), kRelu,
             Module("ScaledStdConv2d", kMaps, kMaps, 152)}),
       256},
      {"block in one row", Collapsed(List({Module("Down", kImage, kMaps, 500)})), 3 * 256},
  };
}

// For each reading correction, a small model whose last operation reads the result of `source`.
struct ReadingExample {
  const char* correction;
  LayerList list;
  std::size_t row;
  std::size_t source;
};

std::vector<ReadingExample> ReadingExamples() {
  return {
      {"parallel ways",
       List({kConv, kRelu, Module("Conv2d", kMaps, kMaps, 144),
             Module("BatchNorm2d", kMaps, kMaps, 8), Module("Conv2d", kMaps, kMaps, 16),
             Module("RepVggBlock", kMaps, kMaps, 0, false, RowKind::kContainer)}),
       4, 1},
      {"norm after norm",
       List({kConv, kRelu, Module("Conv2d", kMaps, kMaps, 36),
             Module("BatchNorm2d", kMaps, kMaps, 8), Module("BatchNorm2d", kMaps, kMaps, 8)}),
       4, 1},
  };
}

double Added(const KeptCorrection& correction, const LayerList& list) {
  const Graph graph = MakeGraph(list);
  Kept kept;
  for (const Row& row : graph.rows()) {
    if (row.step == correction.step) correction.add(graph, row, kept);
  }
  return kept.per_sample;
}

std::string AsTestName(std::string_view name) {
  std::string word(name);
  std::erase_if(word, [](char c) { return c == '\''; });
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return word;
}

class KeptCorrectionTest : public ::testing::TestWithParam<KeptCorrection> {};

TEST_P(KeptCorrectionTest, AddsTheBytesOfItsModel) {
  const KeptCorrection& correction = GetParam();
  EXPECT_FALSE(correction.model.empty());
  EXPECT_FALSE(correction.evidence.empty());
  std::size_t found = 0;
  for (const KeptExample& each : KeptExamples()) {
    if (each.correction == correction.name) {
      ++found;
      EXPECT_EQ(Added(correction, each.list), 4 * each.elements);
    } else if (correction.step != Step::kAttention) {  // several attention corrections may apply
      EXPECT_EQ(Added(correction, each.list), 0) << each.correction;
    }
  }
  EXPECT_EQ(found, 1U) << "add an example of '" << correction.name << "'";
}

INSTANTIATE_TEST_SUITE_P(Corrections, KeptCorrectionTest,
                         ::testing::ValuesIn(KeptCorrections().begin(), KeptCorrections().end()),
                         [](const auto& tested) { return AsTestName(tested.param.name); });

class ReadingCorrectionTest : public ::testing::TestWithParam<ReadingCorrection> {};

TEST_P(ReadingCorrectionTest, FindsTheInputOfItsModel) {
  const ReadingCorrection& correction = GetParam();
  // Corrections that need more than one example input have their own tests below.
  if (correction.name == "TensorFlow-style padding") return;
  if (correction.name == "gated feed-forward") return;
  if (correction.name == "slices in steps") return;
  std::size_t found = 0;
  for (const ReadingExample& each : ReadingExamples()) {
    if (each.correction != correction.name) continue;
    ++found;
    const Graph graph = MakeGraph(each.list);
    // Every operation produces one tensor. The model's input is the first tensor.
    EXPECT_EQ(graph.rows()[each.row].read, static_cast<int>(each.source) + 1);
    EXPECT_NE(graph.rows()[each.row].read, static_cast<int>(each.row)) << "chosen by size";
  }
  EXPECT_EQ(found, 1U) << "add an example of '" << correction.name << "'";
}

INSTANTIATE_TEST_SUITE_P(Corrections, ReadingCorrectionTest,
                         ::testing::ValuesIn(ReadingCorrections().begin(),
                                             ReadingCorrections().end()),
                         [](const auto& tested) { return AsTestName(tested.param.name); });

TEST(Corrections, TensorFlowStylePaddingReadsItsOwnCopy) {
  const Graph graph =
      MakeGraph(List({kConv, kRelu, Module("Conv2dSame", kMaps, Of({-1, 4, 4, 4}), 144)}));
  const Tensor& read = graph.trail[graph.rows().back().read];
  EXPECT_EQ(read.maker, Tensor::Maker::kFunction);
  EXPECT_EQ(read.shape, kMaps);
  EXPECT_TRUE(read.kept);
}

TEST(Corrections, AddsSlicesInStepsUnlessTheLastIsPooled) {
  const model::Shape whole = Of({-1, 12, 8, 8});
  const Layer step = Module("Conv2d", kMaps, kMaps, 144);
  std::vector<Layer> layers = {
      Module("Conv2d", kImage, whole, 324), Module("ReLU", whole, whole), step, kRelu, step, kRelu,
      Module("Conv2d", whole, kMaps, 48)};
  const Graph graph = MakeGraph(List(layers));
  EXPECT_EQ(graph.trail[graph.rows()[2].read].shape, whole) << "a view of the split tensor";
  const Tensor& sum = graph.trail[graph.rows()[4].read];
  EXPECT_EQ(sum.maker, Tensor::Maker::kFunction);
  EXPECT_TRUE(sum.kept);
  layers.insert(layers.begin() + 6, Module("AvgPool2d", kMaps, kMaps));
  const Graph pooled = MakeGraph(List(layers));
  EXPECT_NE(pooled.trail[pooled.rows()[4].read].maker, Tensor::Maker::kFunction);
}

TEST(Corrections, EnlargesAGateOfLowerResolution) {
  const model::Shape small = Of({-1, 4, 4, 4});
  const auto kept = [&](const model::Shape& out) {
    return CountKept(List({Module("Conv2d", kImage, small, 108), Module("Sigmoid", small, small),
                           Module("Ghost", kImage, out, 0, false, RowKind::kContainer),
                           Module("Conv2d", out, out, 144)}))
        .per_sample;
  };
  // The kept tensors are the image, the gate, its copy, the other factor and the product.
  EXPECT_EQ(kept(kMaps), 4 * (192 + 64 + 3 * 256));
}

// Four tensors of silu(gate(x)) * up(x) are kept: silu's input, both factors, and the product,
// which `down` reads.
TEST(Corrections, GatedFeedForwardKeepsBothFactorsAndTheProduct) {
  const Layer up = Module("Linear", kWords, kHidden, 288);
  const Layer down = Module("Linear", kHidden, kWords, 264);
  const Layer silu = Module("SiLU", kHidden, kHidden);
  for (const LayerList& list : {List({kNorm, up, silu, up, down}),
                                List({kNorm, up, up, silu, down}), List({kNorm, up, up, down})}) {
    const Kept kept = CountKept(list);
    // The kept bytes also include the inputs of the norm and of the linear layers, and the norm's 8
    // bytes per row.
    EXPECT_EQ(kept.per_sample, 4 * (2 * 80 + 4 * 320) + 8 * 10);
  }
  // Query, key and value are as wide as their common input, so they are not a gated layer.
  const Layer same = Module("Linear", kWords, kWords, 72);
  const Kept plain = CountKept(List({kNorm, same, same, same, same}));
  EXPECT_LE(plain.per_sample, 4 * 6 * 80 + 8 * 10);
}

}  // namespace
}  // namespace carma::estimate

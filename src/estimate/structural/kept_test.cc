#include "estimate/structural/kept.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/layer_rule.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::RowKind;
using model::Shape;

Shape Of(std::initializer_list<std::int64_t> dimensions) {
  Shape shape;
  for (const std::int64_t each : dimensions) EXPECT_TRUE(shape.Push(each));
  return shape;
}

Layer Row(const std::string& type, Shape in, Shape out, std::int64_t params = 0,
          bool inplace = false, RowKind kind = RowKind::kLeaf) {
  Layer layer;
  layer.type = type;
  layer.in = in;
  layer.out = out;
  layer.params = params;
  layer.inplace = inplace;
  layer.kind = kind;
  return layer;
}

LayerList List(std::vector<Layer> layers) {
  LayerList list;
  list.layers = std::move(layers);
  list.has_input_shapes = true;
  return list;
}

// The same rows as torchsummary prints them.
LayerList AsText(LayerList list) {
  for (Layer& layer : list.layers) {
    layer.in = Shape();
    layer.kind = RowKind::kUnknown;
    layer.inplace = false;
  }
  list.has_input_shapes = false;
  return list;
}

const Shape kImage = Of({-1, 3, 8, 8});  // 192 elements
const Shape kSmall = Of({-1, 4, 8, 8});  // 256
const Shape kWide = Of({-1, 16, 8, 8});  // 1024
const Shape kTokens = Of({-1, 10, 8});   // 80
const Shape kTriple = Of({-1, 10, 24});  // 240
const Shape kHidden = Of({-1, 10, 32});  // 320

TEST(Kept, CountsWhatEachKindOfLayerNeeds) {
  struct Case {
    const char* name;
    std::vector<Layer> rows;
    double elements;  // kept, of four bytes
  };
  const Layer conv = Row("Conv2d", kImage, kSmall, 108);
  const Case cases[] = {
      {"a convolution keeps its input", {conv}, 192},
      {"a norm keeps the convolution's result",
       {conv, Row("BatchNorm2d", kSmall, kSmall, 8)},
       192 + 256},
      {"ReLU keeps its output and nothing else",
       {conv, Row("BatchNorm2d", kSmall, kSmall, 8), Row("ReLU", kSmall, kSmall, 0, true)},
       192 + 256 + 256},
      {"what ReLU keeps serves the next convolution too",
       {conv, Row("ReLU", kSmall, kSmall), Row("Conv2d", kSmall, kSmall, 144)},
       192 + 256},
      {"SiLU keeps its input, the next convolution its result",
       {conv, Row("SiLU", kSmall, kSmall), Row("Conv2d", kSmall, kSmall, 144)},
       192 + 256 + 256},
      {"LeakyReLU keeps its input",
       {conv, Row("LeakyReLU", kSmall, kSmall), Row("Conv2d", kSmall, kSmall, 144)},
       192 + 256 + 256},
      {"LeakyReLU in place keeps its output",
       {conv, Row("LeakyReLU", kSmall, kSmall, 0, true), Row("Conv2d", kSmall, kSmall, 144)},
       192 + 256},
      {"max pooling keeps 8 bytes for every maximum",
       {conv, Row("MaxPool2d", kSmall, Of({-1, 4, 4, 4}))},
       192 + 256 + 2 * 64},
      {"a mean over everything keeps nothing",
       {conv, Row("AdaptiveAvgPool2d", kSmall, Of({-1, 4, 1, 1}))},
       192},
      {"Identity and Flatten keep nothing",
       {conv, Row("Identity", kSmall, kSmall), Row("Flatten", kSmall, Of({-1, 256}))},
       192},
      {"a table that does not grow with the batch is not counted",
       {Row("Linear", Of({49, 2}), Of({49, 16}), 48), conv},
       192},
      {"StarReLU keeps two tensors", {conv, Row("StarReLU", kSmall, kSmall, 2)}, 192 + 256},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(CountKept(List(each.rows)).per_sample, 4 * each.elements) << each.name;
  }
}

TEST(Kept, TellsWhatCodeBetweenTheModulesDid) {
  struct Case {
    const char* name;
    std::vector<Layer> rows;
    double elements;
  };
  const Layer stem = Row("Conv2d", kImage, kSmall, 108);
  const Layer relu = Row("ReLU", kSmall, kSmall);
  const Shape blocks = Of({-1, 2, 5, 32});
  const Case cases[] = {
      // The shortcut's result waits for a sum, and a sum keeps nothing.
      {"a shortcut convolution is not kept",
       {stem, relu, Row("Conv2d", kSmall, kWide, 64), Row("Conv2d", kSmall, kSmall, 144),
        Row("ReLU", kSmall, kSmall), Row("Conv2d", kSmall, kWide, 64)},
       192 + 256 + 256},
      // x * gate: the factors and the product that the last convolution reads.
      {"a gate keeps both factors",
       {stem, Row("BatchNorm2d", kSmall, kSmall, 8),
        Row("Conv2d", Of({-1, 4, 1, 1}), Of({-1, 4, 1, 1}), 16),
        Row("Sigmoid", Of({-1, 4, 1, 1}), Of({-1, 4, 1, 1})), Row("Conv2d", kSmall, kWide, 64)},
       192 + 256 + 4 + 4 + 256 + 256},
      {"a concatenation is a new tensor, read by two convolutions but kept once",
       {stem, relu, Row("Conv2d", kWide, kSmall, 64), relu, Row("Conv2d", kWide, kSmall, 64)},
       192 + 256 + 1024 + 256},
      {"query, key and value are kept, and what the projection reads",
       {Row("LayerNorm", kTokens, kTokens, 16), Row("Linear", kTokens, kTriple, 216),
        Row("Linear", kTokens, kTokens, 72),
        Row("Attention", kTokens, kTokens, 0, false, RowKind::kContainer)},
       80 + 2 * 10 + 80 + 240 + 80},
      {"attention without a row for query, key and value keeps them all the same",
       {Row("LayerNorm", kTokens, kTokens, 16), Row("Linear", kTokens, kTokens, 72),
        Row("Attention", kTokens, kTokens, 216, false, RowKind::kBlock)},
       80 + 2 * 10 + 80 + 3 * 80},
      {"layer scale keeps what it multiplies",
       {Row("LayerNorm", kTokens, kTokens, 16),
        Row("Block", kTokens, kTokens, 8, false, RowKind::kBlock)},
       80 + 2 * 10 + 80},
      {"a norm of a norm is a second branch of what the convolution read",
       {stem, relu, Row("Conv2d", kSmall, kSmall, 36), Row("BatchNorm2d", kSmall, kSmall, 8),
        Row("BatchNorm2d", kSmall, kSmall, 8)},
       192 + 256 + 256},
      {"attention over blocks keeps its matrix",
       {Row("LayerNorm", blocks, blocks, 64), Row("Linear", blocks, Of({-1, 2, 5, 96}), 3168),
        Row("Linear", blocks, blocks, 1056),
        Row("Attention", blocks, blocks, 0, false, RowKind::kContainer)},
       320 + 2 * 10 + 320 + 960 + 320 + 2 * 5 * 5},
      {"a net without norms scales what enters a block",
       {Row("ScaledStdConv2d", kImage, kSmall, 116),
        Row("Block", kImage, kSmall, 0, false, RowKind::kContainer), relu,
        Row("ScaledStdConv2d", kSmall, kSmall, 152), relu,
        Row("ScaledStdConv2d", kSmall, kSmall, 152)},
       192 + 256 + 256 + 256},
      {"padding the TensorFlow way reads a copy",
       {stem, relu, Row("Conv2dSame", kSmall, Of({-1, 4, 4, 4}), 144)},
       192 + 256 + 256},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(CountKept(List(each.rows)).per_sample, 4 * each.elements) << each.name;
  }
}

TEST(Kept, ReadsABlockOfParallelWaysFromItsEntry) {
  std::vector<Layer> rows = {Row("Conv2d", kImage, kSmall, 108),
                             Row("ReLU", kSmall, kSmall),
                             Row("Conv2d", kSmall, kSmall, 144),
                             Row("BatchNorm2d", kSmall, kSmall, 8),
                             Row("Conv2d", kSmall, kSmall, 16),
                             Row("BatchNorm2d", kSmall, kSmall, 8),
                             Row("RepVggBlock", kSmall, kSmall, 0, false, RowKind::kContainer)};
  // Both convolutions read what the ReLU keeps; each norm keeps its convolution's result.
  EXPECT_EQ(CountKept(List(rows)).per_sample, 4 * (192 + 256 + 256 + 256));
  rows.back().type = "Sequential";  // a chain: the second convolution keeps the first norm's result
  EXPECT_EQ(CountKept(List(rows)).per_sample, 4 * (192 + 256 + 256 + 256 + 256));
}

TEST(Kept, CountsDropoutMasksAndTheCopyWithHoles) {
  LayerList list = List({Row("Linear", kTokens, kHidden, 288), Row("ReLU", kHidden, kHidden),
                         Row("Dropout", kHidden, kHidden), Row("Linear", kHidden, kTokens, 264)});
  EXPECT_EQ(CountKept(list).per_sample, 4 * (80 + 320)) << "no rate: dropout is not there";
  list.dropout = 0.1;
  EXPECT_EQ(CountKept(list).per_sample, 4 * (80 + 320 + 320) + 320);
  EXPECT_EQ(CountKept(list).masks, 320);
}

// From the text alone the same numbers should come out where the parameters tell the input.
TEST(Kept, NeedsNoInputShapes) {
  struct Case {
    const char* name;
    std::vector<Layer> rows;
  };
  const Shape pooled = Of({-1, 16, 1, 1});
  const Shape twelve = Of({-1, 12, 8, 8});
  const Case cases[] = {
      {"a chain",
       {Row("Conv2d", kImage, kSmall, 108), Row("BatchNorm2d", kSmall, kSmall, 8),
        Row("ReLU", kSmall, kSmall), Row("Conv2d", kSmall, kWide, 576)}},
      {"a shortcut with a 1x1 convolution, read from its weights",
       {Row("Conv2d", kImage, twelve, 324), Row("ReLU", twelve, twelve),
        Row("Conv2d", twelve, twelve, 1296), Row("BatchNorm2d", twelve, twelve, 24),
        Row("ReLU", twelve, twelve), Row("Conv2d", twelve, kWide, 192),
        Row("BatchNorm2d", kWide, kWide, 32), Row("Conv2d", twelve, kWide, 192),
        Row("BatchNorm2d", kWide, kWide, 32), Row("ReLU", kWide, kWide),
        Row("AdaptiveAvgPool2d", kWide, pooled)}},
      {"a concatenation",
       {Row("Conv2d", kImage, kSmall, 108), Row("ReLU", kSmall, kSmall),
        Row("Conv2d", Of({-1, 11, 8, 8}), kSmall, 44)}},
  };
  for (const Case& each : cases) {
    const LayerList list = List(each.rows);
    EXPECT_EQ(CountKept(AsText(list)).per_sample, CountKept(list).per_sample) << each.name;
  }
}

TEST(Kept, FindsWindowsThatTheBatchHides) {
  // 4 windows of 4 x 4 tokens; torchsummary prints the batch where the windows were.
  const LayerList truth = List({Row("LayerNorm", Of({-1, 8, 8, 6}), Of({-1, 8, 8, 6}), 12),
                                Row("Linear", Of({-4, 16, 6}), Of({-4, 16, 18}), 126),
                                Row("Linear", Of({-4, 16, 6}), Of({-4, 16, 6}), 42)});
  LayerList text = AsText(truth);
  text.layers[1].out = Of({-1, 16, 18});
  text.layers[2].out = Of({-1, 16, 6});
  EXPECT_EQ(CountKept(text).per_sample, CountKept(truth).per_sample);
}

TEST(Kept, SeesTheWidestDenseConvolution) {
  const Kept kept = CountKept(List({Row("Conv2d", kImage, kSmall, 108),
                                    Row("Conv2d", kSmall, kWide, 64),     // 1x1: no workspace
                                    Row("Conv2d", kWide, kWide, 144)}));  // depthwise: none
  EXPECT_EQ(kept.widest_conv, 4 * (192 + 256));
  EXPECT_EQ(kept.largest, 4 * 1024);
  EXPECT_TRUE(kept.has_conv);
}

TEST(Kept, AssumesTokensWhereATreeTellsWidthsOnly) {
  const auto leaf = [](const char* type, std::int64_t params, std::int64_t in, std::int64_t out) {
    Layer layer = Row(type, Shape(), Shape(), params);
    if (out > 0) layer.in_features = in, layer.out_features = out;
    return layer;
  };
  LayerList list = List({leaf("Embedding", 8000, 1000, 8), leaf("Linear", 288, 8, 32),
                         leaf("Linear", 264, 32, 8), leaf("GELU", 0, 0, 0)});
  list.has_input_shapes = false;
  ASSERT_TRUE(LacksShapes(list));
  const LayerList shaped = WithAssumedTokens(list);
  EXPECT_EQ(shaped.layers[2].type, "GELU") << "declared last, run between the linear layers";
  EXPECT_EQ(shaped.layers[2].out, Of({-1, kAssumedTokens, 32}));
  EXPECT_EQ(CountKept(list).per_sample, 4.0 * kAssumedTokens * (1 + 8 + 32 + 32));
  list.layers.push_back(leaf("Conv2d", 9, 1, 1));
  EXPECT_EQ(CountKept(list).per_sample, 0) << "an image's size cannot be assumed";
}

TEST(Kept, SurvivesOddRows) {
  EXPECT_EQ(CountKept(LayerList()).per_sample, 0);
  LayerList list =
      AsText(List({Row("Linear", {}, Of({-1, 7}), 3), Row("Conv2d", {}, Of({-1, 3, 1, 1}), 1),
                   Row("Softmax", {}, Of({-1})), Row("Attention", {}, Of({-5, -5, -5})),
                   Row("MobileOneBlock", {}, kSmall)}));
  EXPECT_GE(CountKept(list).per_sample, 0);
}

TEST(LayerRule, KnowsTypesByName) {
  EXPECT_EQ(RuleOf("GELUActivation").role, Role::kKeepsInput);
  EXPECT_EQ(RuleOf("ReLU").role, Role::kKeepsOutput);
  EXPECT_EQ(RuleOf("relu6").role, Role::kKeepsInput);
  EXPECT_EQ(RuleOf("BatchNormAct2d").role, Role::kNorm);
  EXPECT_TRUE(RuleOf("BatchNormAct2d").norm_with_activation);
  EXPECT_EQ(RuleOf("PatchEmbed").role, Role::kMatrix);
  EXPECT_TRUE(RuleOf("Conv1D").linear);
  EXPECT_FALSE(RuleOf("Conv1D").convolution);
  EXPECT_EQ(RuleOf("SomethingNew").role, Role::kOther);
}

}  // namespace
}  // namespace carma::estimate

#include "estimate/structural/kept.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimate/structural/assumed_shapes.h"
#include "estimate/structural/layer_rule.h"
#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::RowKind;
using model::Shape;

TEST(Kept, CountsTheBytesOfEachKindOfLayer) {
  struct Case {
    const char* name;
    std::vector<Layer> rows;
    double elements;  // kept elements of four bytes
  };
  const Layer conv = Module("Conv2d", kImage, kMaps, 108);
  const Case cases[] = {
      {"a convolution keeps its input", {conv}, 192},
      {"a norm keeps the convolution's result",
       {conv, Module("BatchNorm2d", kMaps, kMaps, 8)},
       192 + 256},
      {"ReLU keeps its output and nothing else",
       {conv, Module("BatchNorm2d", kMaps, kMaps, 8), Module("ReLU", kMaps, kMaps, 0, true)},
       192 + 256 + 256},
      {"the next convolution shares the tensor that ReLU keeps",
       {conv, Module("ReLU", kMaps, kMaps), Module("Conv2d", kMaps, kMaps, 144)},
       192 + 256},
      {"SiLU keeps its input, and the next convolution keeps its result",
       {conv, Module("SiLU", kMaps, kMaps), Module("Conv2d", kMaps, kMaps, 144)},
       192 + 256 + 256},
      {"LeakyReLU keeps its input",
       {conv, Module("LeakyReLU", kMaps, kMaps), Module("Conv2d", kMaps, kMaps, 144)},
       192 + 256 + 256},
      {"LeakyReLU in place keeps its output",
       {conv, Module("LeakyReLU", kMaps, kMaps, 0, true), Module("Conv2d", kMaps, kMaps, 144)},
       192 + 256},
      {"max pooling keeps 8 bytes for every maximum",
       {conv, Module("MaxPool2d", kMaps, Of({-1, 4, 4, 4}))},
       192 + 256 + 2 * 64},
      {"a mean over everything keeps nothing",
       {conv, Module("AdaptiveAvgPool2d", kMaps, Of({-1, 4, 1, 1}))},
       192},
      {"Identity and Flatten keep nothing",
       {conv, Module("Identity", kMaps, kMaps), Module("Flatten", kMaps, Of({-1, 256}))},
       192},
      {"a table that does not grow with the batch is not counted",
       {Module("Linear", Of({49, 2}), Of({49, 16}), 48), conv},
       192},
      {"StarReLU keeps two tensors", {conv, Module("StarReLU", kMaps, kMaps, 2)}, 192 + 256},
  };
  for (const Case& each : cases)
    EXPECT_EQ(CountKept(List(each.rows)).per_sample, 4 * each.elements) << each.name;
}

TEST(Kept, InfersCodeBetweenTheModules) {
  struct Case {
    const char* name;
    std::vector<Layer> rows;
    double elements;
  };
  const Layer stem = Module("Conv2d", kImage, kMaps, 108);
  const Layer relu = Module("ReLU", kMaps, kMaps);
  const Shape blocks = Of({-1, 2, 5, 32});
  const Case cases[] = {
      // The shortcut's result is used in a sum, which keeps nothing.
      {"a shortcut convolution is not kept",
       {stem, relu, Module("Conv2d", kMaps, kWide, 64), Module("Conv2d", kMaps, kMaps, 144),
        Module("ReLU", kMaps, kMaps), Module("Conv2d", kMaps, kWide, 64)},
       192 + 256 + 256},
      // x * gate keeps both factors. The product is kept too, because the last convolution reads
      // it.
      {"a gate keeps both factors",
       {stem, Module("BatchNorm2d", kMaps, kMaps, 8),
        Module("Conv2d", Of({-1, 4, 1, 1}), Of({-1, 4, 1, 1}), 16),
        Module("Sigmoid", Of({-1, 4, 1, 1}), Of({-1, 4, 1, 1})),
        Module("Conv2d", kMaps, kWide, 64)},
       192 + 256 + 4 + 4 + 256 + 256},
      {"a concatenation is a new tensor, read by two convolutions but kept once",
       {stem, relu, Module("Conv2d", kWide, kMaps, 64), relu, Module("Conv2d", kWide, kMaps, 64)},
       192 + 256 + 1024 + 256},
      {"query, key, value and the projection's input are kept",
       {Module("LayerNorm", kWords, kWords, 16), Module("Linear", kWords, kTriple, 216),
        Module("Linear", kWords, kWords, 72),
        Module("Attention", kWords, kWords, 0, false, RowKind::kContainer)},
       80 + 2 * 10 + 80 + 240 + 80},
      {"attention without a row for query, key and value also keeps them",
       {Module("LayerNorm", kWords, kWords, 16), Module("Linear", kWords, kWords, 72),
        Module("Attention", kWords, kWords, 216, false, RowKind::kBlock)},
       80 + 2 * 10 + 80 + 3 * 80},
      {"layer scale keeps its input",
       {Module("LayerNorm", kWords, kWords, 16),
        Module("Block", kWords, kWords, 8, false, RowKind::kBlock)},
       80 + 2 * 10 + 80},
      {"a norm after a norm is a second branch from the convolution's input",
       {stem, relu, Module("Conv2d", kMaps, kMaps, 36), Module("BatchNorm2d", kMaps, kMaps, 8),
        Module("BatchNorm2d", kMaps, kMaps, 8)},
       192 + 256 + 256},
      {"attention over blocks keeps its matrix",
       {Module("LayerNorm", blocks, blocks, 64), Module("Linear", blocks, Of({-1, 2, 5, 96}), 3168),
        Module("Linear", blocks, blocks, 1056),
        Module("Attention", blocks, blocks, 0, false, RowKind::kContainer)},
       320 + 2 * 10 + 320 + 960 + 320 + 2 * 5 * 5},
      {"a network without norms scales a block's input",
       {Module("ScaledStdConv2d", kImage, kMaps, 116),
        Module("Block", kImage, kMaps, 0, false, RowKind::kContainer), relu,
        Module("ScaledStdConv2d", kMaps, kMaps, 152), relu,
        Module("ScaledStdConv2d", kMaps, kMaps, 152)},
       192 + 256 + 256 + 256},
      {"TensorFlow-style padding reads a copy",
       {stem, relu, Module("Conv2dSame", kMaps, Of({-1, 4, 4, 4}), 144)},
       192 + 256 + 256},
  };
  for (const Case& each : cases)
    EXPECT_EQ(CountKept(List(each.rows)).per_sample, 4 * each.elements) << each.name;
}

TEST(Kept, ParallelPathsReadTheInputOfTheirBlock) {
  std::vector<Layer> rows = {Module("Conv2d", kImage, kMaps, 108),
                             Module("ReLU", kMaps, kMaps),
                             Module("Conv2d", kMaps, kMaps, 144),
                             Module("BatchNorm2d", kMaps, kMaps, 8),
                             Module("Conv2d", kMaps, kMaps, 16),
                             Module("BatchNorm2d", kMaps, kMaps, 8),
                             Module("RepVggBlock", kMaps, kMaps, 0, false, RowKind::kContainer)};
  // Both convolutions read the tensor that the ReLU keeps. Each norm keeps the result of its
  // convolution.
  EXPECT_EQ(CountKept(List(rows)).per_sample, 4 * (192 + 256 + 256 + 256));
  rows.back().type = "Sequential";  // a chain: the second convolution keeps the first norm's result
  EXPECT_EQ(CountKept(List(rows)).per_sample, 4 * (192 + 256 + 256 + 256 + 256));
}

TEST(Kept, CountsDropoutMasksAndResults) {
  LayerList list =
      List({Module("Linear", kWords, kHidden, 288), Module("ReLU", kHidden, kHidden),
            Module("Dropout", kHidden, kHidden), Module("Linear", kHidden, kWords, 264)});
  EXPECT_EQ(CountKept(list).per_sample, 4 * (80 + 320)) << "a dropout without a rate does nothing";
  list.dropout = 0.1;
  EXPECT_EQ(CountKept(list).per_sample, 4 * (80 + 320 + 320) + 320);
  EXPECT_EQ(CountKept(list).masks, 320);
}

// If the parameters reveal the input sizes, the list without input shapes must give the same
// numbers.
TEST(Kept, NeedsNoInputShapes) {
  struct Case {
    const char* name;
    std::vector<Layer> rows;
  };
  const Shape pooled = Of({-1, 16, 1, 1});
  const Shape twelve = Of({-1, 12, 8, 8});
  const Case cases[] = {
      {"a chain",
       {Module("Conv2d", kImage, kMaps, 108), Module("BatchNorm2d", kMaps, kMaps, 8),
        Module("ReLU", kMaps, kMaps), Module("Conv2d", kMaps, kWide, 576)}},
      {"a shortcut with a 1x1 convolution, inferred from its weights",
       {Module("Conv2d", kImage, twelve, 324), Module("ReLU", twelve, twelve),
        Module("Conv2d", twelve, twelve, 1296), Module("BatchNorm2d", twelve, twelve, 24),
        Module("ReLU", twelve, twelve), Module("Conv2d", twelve, kWide, 192),
        Module("BatchNorm2d", kWide, kWide, 32), Module("Conv2d", twelve, kWide, 192),
        Module("BatchNorm2d", kWide, kWide, 32), Module("ReLU", kWide, kWide),
        Module("AdaptiveAvgPool2d", kWide, pooled)}},
      {"a concatenation",
       {Module("Conv2d", kImage, kMaps, 108), Module("ReLU", kMaps, kMaps),
        Module("Conv2d", Of({-1, 11, 8, 8}), kMaps, 44)}},
  };
  for (const Case& each : cases) {
    const LayerList list = List(each.rows);
    EXPECT_EQ(CountKept(AsText(list)).per_sample, CountKept(list).per_sample) << each.name;
  }
}

TEST(Kept, FindsWindowsThatTheBatchHides) {
  // There are 4 windows of 4 x 4 tokens. torchsummary prints the batch in place of the number of
  // windows.
  const LayerList truth = List({Module("LayerNorm", Of({-1, 8, 8, 6}), Of({-1, 8, 8, 6}), 12),
                                Module("Linear", Of({-4, 16, 6}), Of({-4, 16, 18}), 126),
                                Module("Linear", Of({-4, 16, 6}), Of({-4, 16, 6}), 42)});
  LayerList text = AsText(truth);
  text.layers[1].out = Of({-1, 16, 18});
  text.layers[2].out = Of({-1, 16, 6});
  EXPECT_EQ(CountKept(text).per_sample, CountKept(truth).per_sample);
}

TEST(Kept, MeasuresTheWidestDenseConvolution) {
  const Kept kept = CountKept(List({Module("Conv2d", kImage, kMaps, 108),
                                    Module("Conv2d", kMaps, kWide, 64),      // 1x1: no workspace
                                    Module("Conv2d", kWide, kWide, 144)}));  // depthwise: none
  EXPECT_EQ(kept.widest_conv, 4 * (192 + 256));
  EXPECT_EQ(kept.largest, 4 * 1024);
  EXPECT_TRUE(kept.has_conv);
}

TEST(Kept, CountsADropoutsResultAsTheLargestTensor) {
  const Shape matrix = Of({-1, 2, 10, 10});
  Layer dropout = Module("Dropout", matrix, matrix);
  dropout.dropout = 0.1;
  const Layer linear = Module("Linear", kWords, kWords, 72);
  EXPECT_EQ(CountKept(List({linear, dropout})).largest, 4 * 200);
  dropout.dropout = 0;
  EXPECT_EQ(CountKept(List({linear, dropout})).largest, 4 * 80) << "passes its input on";
}

TEST(Kept, AssumesTokensIfATreeHasOnlyWidths) {
  const auto leaf = [](const char* type, std::int64_t params, std::int64_t in, std::int64_t out) {
    Layer layer = Module(type, Shape(), Shape(), params);
    if (out > 0) layer.in_features = in, layer.out_features = out;
    return layer;
  };
  LayerList list = List({leaf("Embedding", 8000, 1000, 8), leaf("Linear", 288, 8, 32),
                         leaf("Linear", 264, 32, 8), leaf("GELU", 0, 0, 0)});
  list.has_input_shapes = false;
  ASSERT_TRUE(LacksShapes(list));
  const LayerList shaped = WithAssumedTokens(list);
  EXPECT_EQ(shaped.layers[2].type, "GELU") << "declared last, but runs between the linear layers";
  EXPECT_EQ(shaped.layers[2].out, Of({-1, kAssumedTokens, 32}));
  EXPECT_EQ(CountKept(list).per_sample, 4.0 * kAssumedTokens * (1 + 8 + 32 + 32));
  list.layers.push_back(leaf("Conv2d", 9, 1, 1));
  EXPECT_EQ(CountKept(list).per_sample, 0) << "an image's size cannot be assumed";
}

TEST(Kept, ATableOfPositionsLimitsTheText) {
  const auto table = [](const char* name, std::int64_t entries) {
    Layer layer = Module("Embedding", Shape(), Shape(), entries * 8);
    layer.name = name;
    layer.in_features = entries;
    layer.out_features = 8;
    return layer;
  };
  const auto with = [&](const char* name, std::int64_t entries) {
    LayerList list = List({table("bert.embeddings.word_embeddings", 1000), table(name, entries)});
    list.has_input_shapes = false;
    return list;
  };
  const char* positions = "bert.embeddings.position_embeddings";
  EXPECT_EQ(AssumedTokens(with(positions, 128)), 128);
  EXPECT_EQ(WithAssumedTokens(with(positions, 128)).layers[0].out, Of({-1, 128, 8}));
  EXPECT_TRUE(AssumesTheLongest(with(positions, 512)));
  EXPECT_TRUE(AssumesTheLongest(with(positions, 514))) << "RoBERTa leaves two positions unused";
  EXPECT_EQ(AssumedTokens(with(positions, 514)), kAssumedTokens);
  EXPECT_FALSE(AssumesTheLongest(with("transformer.wpe", 1024))) << "texts may be twice as long";
  EXPECT_FALSE(AssumesTheLongest(with("layer.relative_attention_bias", 32)));
  EXPECT_FALSE(AssumesTheLongest(with("bert.embeddings.token_type_embeddings", 2)));
  EXPECT_FALSE(AssumesTheLongest(with("tagger.pos_tag_embedding", 50))) << "parts of speech";
}

TEST(Kept, SurvivesOddRows) {
  EXPECT_EQ(CountKept(LayerList()).per_sample, 0);
  LayerList list =
      AsText(List({Module("Linear", {}, Of({-1, 7}), 3), Module("Conv2d", {}, Of({-1, 3, 1, 1}), 1),
                   Module("Softmax", {}, Of({-1})), Module("Attention", {}, Of({-5, -5, -5})),
                   Module("MobileOneBlock", {}, kMaps)}));
  EXPECT_GE(CountKept(list).per_sample, 0);
}

TEST(LayerRule, RecognisesTypesByName) {
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

TEST(Kept, CountsTensorsThatAutocastLeavesInFp32) {
  const Shape matrix = Of({-1, 2, 10, 10});
  const Layer linear = Module("Linear", kWords, kWords, 72);
  const Layer norm = Module("LayerNorm", kWords, kWords, 16);
  const Kept norms = CountKept([&] {
    LayerList list;
    list.layers = {linear, norm, linear};
    list.has_input_shapes = true;
    return list;
  }());
  EXPECT_EQ(norms.wide, 4 * 80) << "what LayerNorm reads";
  LayerList attention;
  attention.layers = {linear, Module("Softmax", matrix, matrix)};
  attention.has_input_shapes = true;
  EXPECT_EQ(CountKept(attention).wide, 4 * 200) << "the result of softmax";
  LayerList images;
  images.layers = {Module("Conv2d", kImage, kMaps, 108), Module("BatchNorm2d", kMaps, kMaps, 8)};
  images.has_input_shapes = true;
  EXPECT_EQ(CountKept(images).wide, 0);
}

}  // namespace
}  // namespace carma::estimate

#include "estimate/structural/graph.h"

#include <gtest/gtest.h>

#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

using model::RowKind;

// Every operation produces one tensor. Tensor 0 is the model's input. Tensor i + 1 is the result of
// row i unless code between the modules creates tensors.
TEST(Graph, AChainReadsTheLastTensor) {
  const model::LayerList list =
      List({Module("Conv2d", kImage, kMaps, 108), Module("BatchNorm2d", kMaps, kMaps, 8),
            Module("ReLU", kMaps, kMaps)});
  const Graph graph = MakeGraph(list);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(graph.rows()[static_cast<std::size_t>(i)].read, i);
  EXPECT_EQ(graph.last, 3);
  EXPECT_TRUE(graph.leaves_only);
}

TEST(Graph, AShortcutReadsTheInputOfItsBlock) {
  const model::LayerList list =
      List({Module("Conv2d", kImage, kMaps, 108), Module("ReLU", kMaps, kMaps),
            Module("Conv2d", kMaps, kWide, 64), Module("Conv2d", kMaps, kMaps, 144),
            Module("Conv2d", kMaps, kWide, 64)});
  const Graph graph = MakeGraph(list);
  EXPECT_EQ(graph.rows()[3].read, graph.rows()[2].read);
  EXPECT_FALSE(graph.trail[3].kept) << "it is used in a sum, which keeps nothing";
}

TEST(Graph, AGateKeepsBothFactors) {
  const model::Shape one = Of({-1, 4, 1, 1});
  const model::LayerList list =
      List({Module("Conv2d", kImage, kMaps, 108), Module("AdaptiveAvgPool2d", kMaps, one),
            Module("Conv2d", one, one, 20), Module("Sigmoid", one, one),
            Module("Conv2d", kMaps, kMaps, 144)});
  const Graph graph = MakeGraph(list);
  EXPECT_TRUE(graph.trail[1].kept) << "x";
  EXPECT_TRUE(graph.trail[4].kept) << "the gate";
  EXPECT_EQ(graph.trail[graph.rows()[4].read].maker, Tensor::Maker::kFunction) << "the product";
}

TEST(Graph, JoinsAnUnknownSizeAndForgetsItAfterItsBlock) {
  const model::Shape joined = Of({-1, 7, 8, 8});
  const model::LayerList list =
      List({Module("Conv2d", kImage, kMaps, 108), Module("ReLU", kMaps, kMaps),
            Module("Conv2d", joined, kMaps, 256), Module("ReLU", kMaps, kMaps),
            Module("Conv2d", joined, kMaps, 256), Module("ReLU", kMaps, kMaps),
            Module("Block", kMaps, kMaps, 0, false, RowKind::kContainer),
            Module("Conv2d", joined, kMaps, 256)});
  const Graph graph = MakeGraph(list);
  EXPECT_EQ(graph.rows()[2].read, graph.rows()[4].read) << "two branches of one concatenation";
  EXPECT_NE(graph.rows()[2].read, graph.rows()[7].read);
}

TEST(Graph, ClassifiesRows) {
  const model::Shape tokens = Of({-1, 10, 8});
  const model::LayerList list =
      List({Module("Linear", Of({49, 2}), Of({49, 16}), 48),
            Module("LayerNorm", tokens, tokens, 16), Module("Identity", tokens, tokens),
            Module("Attention", tokens, tokens, 216, false, RowKind::kBlock),
            Module("Block", tokens, tokens, 8, false, RowKind::kBlock),
            Module("Model", tokens, tokens, 0, false, RowKind::kContainer)});
  const Step steps[] = {Step::kNone,      Step::kOperation, Step::kPassing,
                        Step::kAttention, Step::kBlock,     Step::kContainer};
  const Graph graph = MakeGraph(list);
  for (std::size_t i = 0; i < graph.rows().size(); ++i)
    EXPECT_EQ(graph.rows()[i].step, steps[i]) << list.layers[i].type;
  EXPECT_FALSE(graph.leaves_only);
}

}  // namespace
}  // namespace carma::estimate

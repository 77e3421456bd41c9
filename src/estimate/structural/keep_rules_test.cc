#include "estimate/structural/keep_rules.h"

#include <gtest/gtest.h>

#include "estimate/structural/graph.h"
#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

const model::Shape kPooled = Of({-1, 4, 4, 4});

TEST(KeepRules, NameTheKeptTensorAndTheReason) {
  struct Case {
    model::Layer layer;
    Holds holds;
  };
  const Case cases[] = {
      {Module("Conv2d", kMaps, kMaps, 144), Holds::kInput},
      {Module("BatchNorm2d", kMaps, kMaps, 8), Holds::kInput},
      {Module("ReLU", kMaps, kMaps), Holds::kOutput},
      {Module("LeakyReLU", kMaps, kMaps), Holds::kInput},
      {Module("LeakyReLU", kMaps, kMaps, 0, true), Holds::kOutput},
      {Module("SiLU", kMaps, kMaps), Holds::kInput},
      {Module("MaxPool2d", kMaps, kPooled), Holds::kInput},
      {Module("AvgPool2d", kMaps, kPooled), Holds::kInput},
      {Module("AdaptiveAvgPool2d", kMaps, Of({-1, 4, 1, 1})), Holds::kNothing},
      {Module("Upsample", kPooled, kMaps), Holds::kNothing},
      {Module("SomethingNew", kMaps, kMaps), Holds::kInput},
  };
  for (const Case& each : cases) {
    const model::LayerList list = List({each.layer});
    EXPECT_EQ(MakeGraph(list).rows()[0].holds, each.holds) << each.layer.type;
  }
  for (const KeepRule& rule : KeepRules()) EXPECT_FALSE(rule.evidence.empty()) << rule.pattern;
}

TEST(KeepRules, InPlaceOverAKeptTensorMakesACopy) {
  const model::Layer silu = Module("SiLU", kMaps, kMaps, 0, true);
  const model::LayerList held = List({Module("ReLU", kMaps, kMaps), silu});
  EXPECT_EQ(MakeGraph(held).rows()[1].holds, Holds::kCopy);
  const model::LayerList free = List({Module("Conv2d", kMaps, kMaps, 144), silu});
  EXPECT_EQ(MakeGraph(free).rows()[1].holds, Holds::kInput);
}

TEST(KeepRules, CountAdditionalBytes) {
  struct Case {
    model::Layer layer;
    Kept besides;
  };
  const model::Shape tokens = Of({-1, 10, 8});
  model::Layer dropout = Module("Dropout", tokens, tokens);
  dropout.dropout = 0.1;
  const Case cases[] = {
      {Module("LayerNorm", tokens, tokens, 16), {.per_sample = 10 * 8}},
      {Module("LayerNorm2d", kMaps, kMaps, 8), {.per_sample = 64 * 8}},
      {Module("MaxPool2d", kMaps, kPooled), {.per_sample = 64 * 8, .masks = 64 * 4}},
      {dropout, {.per_sample = 80, .masks = 80}},
      {Module("StarReLU", kMaps, kMaps, 2), {.per_sample = 256 * 4}},
      {Module("NewGELU", tokens, tokens), {.per_sample = 3 * 80 * 4}},
      {Module("StdConv2d", kMaps, kMaps, 144), {.constant = 144 * 4}},
      {Module("Conv2d", kMaps, kMaps, 144), {}},
  };
  for (const Case& each : cases) {
    const model::LayerList list = List({each.layer});
    const Graph graph = MakeGraph(list);
    Kept kept;
    AddBesides(graph, graph.rows()[0], kept);
    EXPECT_EQ(kept.per_sample, each.besides.per_sample) << each.layer.type;
    EXPECT_EQ(kept.constant, each.besides.constant) << each.layer.type;
    EXPECT_EQ(kept.masks, each.besides.masks) << each.layer.type;
  }
  for (const BesidesRule& rule : BesidesRules()) EXPECT_FALSE(rule.evidence.empty());
}

}  // namespace
}  // namespace carma::estimate

#include "model/features.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/op.h"

namespace carma::model {
namespace {

TEST(Op, IsDerivedFromTheClassName) {
  const struct {
    const char* type;
    Op op;
  } cases[] = {
      {"Conv2d", Op::kConv},
      {"ConvTranspose2d", Op::kConv},
      {"ScaledStdConv2dSame", Op::kConv},
      {"ConvNormAct", Op::kConv},
      {"Conv1d", Op::kConv},
      {"Conv1D", Op::kLinear},
      {"Linear", Op::kLinear},
      {"NonDynamicallyQuantizableLinear", Op::kLinear},
      {"BatchNorm1d", Op::kBatchNorm},
      {"SyncBatchNorm", Op::kBatchNorm},
      {"BatchNormAct2d", Op::kBatchNorm},
      {"LayerNorm2d", Op::kLayerNorm},
      {"LlamaRMSNorm", Op::kLayerNorm},
      {"GroupNorm", Op::kLayerNorm},
      {"Dropout", Op::kDropout},
      {"AlphaDropout", Op::kDropout},
      {"DropPath", Op::kDropout},
      {"ReLU", Op::kActivation},
      {"LeakyReLU", Op::kActivation},
      {"NewGELUActivation", Op::kActivation},
      {"Hardswish", Op::kActivation},
      {"Softmax", Op::kActivation},
      {"MaxPool2d", Op::kPool},
      {"SelectAdaptivePool2d", Op::kPool},
      {"Embedding", Op::kEmbedding},
      {"EmbeddingBag", Op::kEmbedding},
      {"MultiheadAttention", Op::kAttention},
      {"BertSdpaSelfAttention", Op::kAttention},
      {"LSTM", Op::kRecurrent},
      {"Identity", Op::kReshape},
      {"UpsamplingBilinear2d", Op::kReshape},
      {"MyThing", Op::kOther},
      {"", Op::kOther},
  };
  for (const auto& c : cases) EXPECT_EQ(OpOf(c.type), c.op) << c.type;
}

TEST(Op, DistinguishesContainersFromOperations) {
  const struct {
    const char* type;
    std::int64_t params;
    RowKind kind;
    bool operation;
  } cases[] = {
      {"MyThing", 0, RowKind::kLeaf, true},
      {"ConvNormAct", 0, RowKind::kContainer, false},
      {"BatchNormAct2d", 64, RowKind::kBlock, true},
      {"ConvNeXtBlock", 96, RowKind::kBlock, false},
      {"ConvNormAct", 0, RowKind::kUnknown, false},
      {"Conv2d", 864, RowKind::kUnknown, true},
      {"ReLU", 0, RowKind::kUnknown, true},
      {"AdaptiveAvgPool2d", 0, RowKind::kUnknown, true},
      {"SelectAdaptivePool2d", 0, RowKind::kUnknown, false},
      {"Bottleneck", 0, RowKind::kUnknown, false},
  };
  for (const auto& c : cases) {
    const Layer layer{.type = c.type, .params = c.params, .kind = c.kind};
    EXPECT_EQ(IsOperation(layer), c.operation) << c.type << ' ' << c.params;
  }
}

LayerList List(const std::vector<std::string>& types, RowKind kind = RowKind::kLeaf) {
  LayerList list;
  for (const std::string& type : types) {
    Layer layer{.type = type, .kind = kind};
    layer.out.Push(-1);
    layer.out.Push(10);
    list.layers.push_back(layer);
  }
  return list;
}

TEST(Features, CountsLayersByOperation) {
  LayerList list = List({"Conv2d", "BatchNorm2d", "GELU", "ReLU", "ReLU", "MaxPool2d", "Identity",
                         "Dropout", "Flatten", "Linear", "LayerNorm", "Embedding"});
  list.params = 77;
  list.layers.push_back(list.layers.front());
  list.layers.back().kind = RowKind::kContainer;
  Shape table;
  table.Push(10);
  list.layers.push_back({.type = "Embedding", .out = table});
  const Features expected{.linear = 1,
                          .conv = 1,
                          .batch_norm = 1,
                          .layer_norm = 1,
                          .dropout = 1,
                          .activation = 3,
                          .embedding = 2,
                          .depth = 11,
                          .params = 77,
                          .activations = 100,  // the position table is the same for every batch
                          .activation_function = "ReLU"};
  EXPECT_EQ(Summarize(list), expected);
}

TEST(Features, DataParallelSplitsTheBatch) {
  LayerList list;
  list.model = "DataParallel";
  EXPECT_EQ(BatchOfOneGpu(list, 9, 2), 5) << "the GPU with the most samples";
  EXPECT_EQ(BatchOfOneGpu(list, 9, 1), 9);
  list.model = "DistributedDataParallel";
  EXPECT_EQ(BatchOfOneGpu(list, 9, 2), 9) << "each process loads its own batch";
}

TEST(Features, DistinguishesFamilies) {
  const struct {
    const char* name;
    std::vector<std::string> types;
    Family family;
  } cases[] = {
      {"a perceptron", {"Linear", "ReLU", "Linear"}, Family::kMlp},
      {"an empty list", {}, Family::kMlp},
      {"convolutions", {"Conv2d", "BatchNorm2d", "ReLU", "Linear", "Linear"}, Family::kCnn},
      {"a vision transformer",
       {"Conv2d", "LayerNorm", "Linear", "Attention", "Linear"},
       Family::kTransformer},
      {"an encoder without attention rows",
       {"Embedding", "Linear", "Linear", "LayerNorm"},
       Family::kTransformer},
      {"a recommender", {"EmbeddingBag", "Linear", "ReLU", "Linear"}, Family::kMlp},
      {"channel attention", {"Conv2d", "BatchNorm2d", "SplitAttn", "Linear"}, Family::kCnn},
      {"ConvNeXt", {"Conv2d", "LayerNorm2d", "Linear", "GELU", "Linear"}, Family::kCnn},
  };
  for (const auto& c : cases) EXPECT_EQ(Classify(List(c.types)), c.family) << c.name;
}

}  // namespace
}  // namespace carma::model

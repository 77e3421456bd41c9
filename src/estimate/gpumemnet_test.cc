#include "estimate/gpumemnet.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "estimate/gpumemnet_input.h"
#include "estimate/gpumemnet_network.h"
#include "test_paths.h"

namespace carma::estimate {
namespace {

using model::Family;
using model::kFamilies;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::array kKinds{NetworkKind::kMlp, NetworkKind::kTransformer};

model::Shape ShapeOf(std::initializer_list<std::int64_t> dimensions) {
  model::Shape shape;
  for (const std::int64_t each : dimensions) shape.Push(each);
  return shape;
}

void AddLayer(model::LayerList& list, const char* type, model::Shape in, model::Shape out,
              std::int64_t params) {
  model::Layer layer;
  layer.type = type;
  layer.in = in;
  layer.out = out;
  layer.params = layer.trainable = params;
  list.layers.push_back(layer);
  list.params += params;
}

// `layers` linear layers of equal width, each followed by an activation.
model::LayerList Perceptron(int layers, std::int64_t width) {
  model::LayerList list;
  const model::Shape shape = ShapeOf({-1, width});
  for (int i = 0; i < layers; ++i) {
    AddLayer(list, "Linear", shape, shape, width * (width + 1));
    AddLayer(list, "ReLU", shape, shape, 0);
  }
  return list;
}

model::LayerList Convolutions(int layers, std::int64_t channels, std::int64_t side) {
  model::LayerList list;
  const model::Shape shape = ShapeOf({-1, channels, side, side});
  AddLayer(list, "Conv2d", ShapeOf({-1, 3, side, side}), shape, channels * 28);
  for (int i = 1; i < layers; ++i) {
    AddLayer(list, "Conv2d", shape, shape, channels * (9 * channels + 1));
    AddLayer(list, "ReLU", shape, shape, 0);
  }
  AddLayer(list, "AdaptiveAvgPool2d", shape, ShapeOf({-1, channels, 1, 1}), 0);
  AddLayer(list, "Linear", ShapeOf({-1, channels}), ShapeOf({-1, 100}), 100 * (channels + 1));
  return list;
}

model::LayerList TextEncoder(int layers, std::int64_t width, std::int64_t tokens) {
  model::LayerList list;
  const model::Shape shape = ShapeOf({-1, tokens, width});
  AddLayer(list, "Embedding", ShapeOf({-1, tokens}), shape, 50'000 * width);
  for (int i = 0; i < layers; ++i) {
    AddLayer(list, "Linear", shape, ShapeOf({-1, tokens, 3 * width}), 3 * width * (width + 1));
    AddLayer(list, "Linear", shape, shape, width * (width + 1));
    AddLayer(list, "Dropout", shape, shape, 0);
    AddLayer(list, "LayerNorm", shape, shape, 2 * width);
  }
  return list;
}

Question BatchQuestion(const model::LayerList& list, std::int64_t batch) {
  Question question;
  question.layers = &list;
  question.batch = batch;
  question.optimizer = Optimizer::kAdam;
  question.precision = Precision::kFp32;
  return question;
}

float Aggregate(const NetworkInput& input, std::string_view name) {
  const auto* found = std::ranges::find(kAggregateNames, name);
  return input.aggregates[static_cast<std::size_t>(found - kAggregateNames.begin())];
}

TEST(NetworkInput, ComputesTheAggregatesOfTheDissertation) {
  model::LayerList list = Perceptron(2, 100);
  AddLayer(list, "Dropout", ShapeOf({-1, 100}), ShapeOf({-1, 100}), 0);
  AddLayer(list, "Flatten", ShapeOf({-1, 100}), ShapeOf({-1, 100}), 0);
  const NetworkInput input = DescribeForNetworks(list, 10);
  const std::pair<const char*, double> wanted[] = {
      {"ln linear", std::log1p(2)},
      {"ln conv", 0},
      {"ln dropout", std::log1p(1)},
      {"ln depth", std::log1p(5)},
      {"ln batch", std::log1p(10)},
      {"ln params", std::log1p(2 * 100 * 101)},
      {"ln activations", std::log1p(500)},
      {"ln activations*batch", std::log1p(5000)},
      {"cos function", std::cos(2 * M_PI * 0.5 / 16)},
      {"sin function", std::sin(2 * M_PI * 0.5 / 16)},
      {"ln largest_output*batch", std::log1p(1000)},
      {"ln weighted_outputs*batch", std::log1p(2000)},
      {"ln largest_conv*batch", 0},
      {"dropout/depth", 0.2},
      {"batch_norm/depth", 0},
  };
  for (const auto& [name, value] : wanted) EXPECT_NEAR(Aggregate(input, name), value, 1e-5) << name;
}

TEST(NetworkInput, PlacesInputKeepingFunctionsOppositeToOutputKeepingFunctions) {
  for (const char* output_keeping : {"ReLU", "ReLU6", "Sigmoid", "Tanh"}) {
    for (const char* input_keeping : {"GELU", "SiLU", "ELU", "LeakyReLU", "NewGELUActivation"}) {
      model::LayerList one = Perceptron(1, 8);
      model::LayerList other = Perceptron(1, 8);
      one.layers[1].type = output_keeping;
      other.layers[1].type = input_keeping;
      EXPECT_GT(Aggregate(DescribeForNetworks(one, 1), "sin function"), 0) << output_keeping;
      EXPECT_LT(Aggregate(DescribeForNetworks(other, 1), "sin function"), 0) << input_keeping;
    }
  }
  EXPECT_EQ(Aggregate(DescribeForNetworks(model::LayerList{}, 1), "cos function"), 0);
}

TEST(NetworkInput, CountsEqualLayersInOneToken) {
  const NetworkInput input = DescribeForNetworks(Perceptron(7, 64), 4);
  ASSERT_EQ(input.layers.size(), 2U);
  EXPECT_EQ(kLayerTypes[static_cast<std::size_t>(input.layers[0].type)], model::Op::kLinear);
  EXPECT_NEAR(input.layers[0].sizes[0], std::log1p(64), 1e-5);
  EXPECT_NEAR(input.layers[0].sizes[1], std::log1p(64 * 65), 1e-5);
  EXPECT_NEAR(input.layers[0].sizes[2], std::log1p(256), 1e-5);
  EXPECT_NEAR(input.layers[0].ln_repeats, std::log(7), 1e-6);
}

TEST(NetworkInput, MergesSimilarLayersOfLargeModels) {
  model::LayerList list;
  constexpr int kLayers = 20'000;
  for (int i = 1; i <= kLayers; ++i)
    AddLayer(list, "Linear", ShapeOf({-1, i}), ShapeOf({-1, i * 1'000'000LL}), i);
  const NetworkInput input = DescribeForNetworks(list, 1 << 20);
  EXPECT_LE(input.layers.size(), kMaxTokens);
  EXPECT_GT(input.layers.size(), kMaxTokens / 8);
  double layers = 0;
  for (const LayerToken& token : input.layers) {
    layers += std::exp(token.ln_repeats);
    EXPECT_TRUE(std::isfinite(token.sizes[2]));
  }
  EXPECT_NEAR(layers, kLayers, 1);
}

TEST(ClassAnswer, PointAndBoundComeFromTheProbabilities) {
  struct Case {
    const char* name;
    std::vector<double> probabilities;
    double coverage;
    std::int64_t point_mib;
    std::int64_t bound_mib;
    int index;
  };
  const std::vector<float> points{600, 1500, 2100};
  const Case cases[] = {
      {"certain", {0, 1, 0}, 0.95, 1500, 2048, 1},
      {"mean of the points", {0.2, 0.8, 0}, 0.95, 1320, 2048, 1},
      {"kept within the class", {0.4, 0.6, 0}, 0.5, 1140, 2048, 1},
      {"kept above its lower edge", {0.5, 0.5 + 1e-9, 0}, 0.5, 1050, 1024 + 26, 1},
      {"kept below its upper edge", {0.5, 0.05, 0.45}, 0.5, 1023, 1024, 0},
      {"coverage needs the next class", {0.9, 0.1, 0}, 0.95, 690, 2048, 0},
      {"coverage is reached exactly", {0.5, 0.25, 0.25}, 0.75, 1023, 2048, 0},
      {"open class", {0, 0.1, 0.9}, 0.95, 2048, 3072, 2},
      {"rounding leaves the sum short", {0.3, 0.3, 0.3999999}, 0.999999999, 2048, 3072, 2},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Answer answer =
        AnswerFromClasses(each.probabilities, points, 1024, Family::kCnn, each.coverage);
    EXPECT_EQ(answer.point_mib, each.point_mib);
    EXPECT_EQ(answer.bound_mib, each.bound_mib);
    ASSERT_EQ(answer.classes.size(), 1U);
    EXPECT_EQ(answer.classes[0], (MemoryClass{1024, each.index}));
    EXPECT_EQ(answer.coverage, each.coverage);
  }
}

TEST(ClassAnswer, AddsClassesOfTwiceTheWidthForPerceptrons) {
  const std::vector<double> probabilities{0.4, 0, 0.3, 0.3};
  const std::vector<float> points{500, 1500, 2500, 3500};
  const Answer answer = AnswerFromClasses(probabilities, points, 1024, Family::kMlp, 0.9);
  EXPECT_EQ(answer.classes, (std::vector<MemoryClass>{{1024, 0}, {2048, 1}}));
}

// A valid weights file for a network without hidden layers, whose probabilities are the softmax of
// its bias.
TensorFile BiasOnly(const std::vector<float>& bias) {
  const auto count = static_cast<std::int64_t>(kAggregateNames.size());
  const auto classes = static_cast<std::int64_t>(bias.size());
  const std::vector<float> zeros(kAggregateNames.size(), 0);
  const std::vector<float> ones(kAggregateNames.size(), 1);
  TensorFile file;
  file.metadata = {{"format", std::string(kWeightsFormat)},
                   {"kind", "mlp"},
                   {"family", "cnn"},
                   {"class_mib", "100"},
                   {"runs", "12"},
                   {"aggregates", AggregateNameList()}};
  file.tensors = {
      {"aggregates.mean", {{count}, zeros}},
      {"aggregates.scale", {{count}, ones}},
      {"aggregates.low", {{count}, zeros}},
      {"aggregates.high", {{count}, ones}},
      {"members.0.output.weight",
       {{classes, count}, std::vector<float>(bias.size() * kAggregateNames.size(), 0)}},
      {"members.0.output.bias", {{classes}, bias}},
      {"check.aggregates", {{1, count}, ones}},
  };
  Tensor points{{classes}, {}};
  Tensor answers{{1, classes}, {}};
  float sum = 0;
  for (const float each : bias) sum += std::exp(each);
  for (std::size_t k = 0; k < bias.size(); ++k) {
    points.values.push_back(static_cast<float>(100 * k + 50));
    answers.values.push_back(std::exp(bias[k]) / sum);
  }
  file.tensors["classes.point"] = points;
  file.tensors["check.probabilities"] = answers;
  return file;
}

TEST(NetworkFile, LoadsAndAnswers) {
  const auto network = Network::Load(BiasOnly({0, 1, 2}), "w");
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_EQ(network->kind(), NetworkKind::kMlp);
  EXPECT_EQ(network->family(), Family::kCnn);
  EXPECT_EQ(network->class_mib(), 100);
  EXPECT_EQ(network->runs(), 12);
  const NetworkInput input = DescribeForNetworks(Perceptron(2, 10), 4);
  const std::vector<double> probabilities = network->Probabilities(input);
  ASSERT_EQ(probabilities.size(), 3U);
  EXPECT_NEAR(probabilities[1] / probabilities[0], std::exp(1), 1e-5);
  EXPECT_NEAR(probabilities[0] + probabilities[1] + probabilities[2], 1, 1e-12);
  EXPECT_THAT(network->Unfamiliar(input), Contains("ln params"));
}

TEST(NetworkFile, RefusesUnsuitableFilesInOneLine) {
  struct Case {
    const char* name;
    std::function<void(TensorFile&)> spoil;
    const char* message;
  };
  const Case cases[] = {
      {"wrong format", [](auto& f) { f.metadata["format"] = "2"; }, "metadata 'format' is '2'"},
      {"no metadata", [](auto& f) { f.metadata.clear(); }, "metadata has no 'format'"},
      {"wrong inputs", [](auto& f) { f.metadata["aggregates"] = "ln conv"; },
       "metadata 'aggregates' is 'ln conv', expected 'ln linear"},
      {"wrong kind", [](auto& f) { f.metadata["kind"] = "tree"; }, "expected mlp or transformer"},
      {"wrong family", [](auto& f) { f.metadata["family"] = "gan"; }, "expected mlp, cnn or"},
      {"class width 0", [](auto& f) { f.metadata["class_mib"] = "0"; }, "expected 1..1048576"},
      {"class width is not a number", [](auto& f) { f.metadata["class_mib"] = "1e3"; }, "'1e3'"},
      {"missing tensor", [](auto& f) { f.tensors.erase("aggregates.low"); },
       "no tensor 'aggregates.low'"},
      {"no member", [](auto& f) { f.tensors.erase("members.0.output.weight"); },
       "no tensor 'members.0.output.weight'"},
      {"left-over tensor",
       [](auto& f) {
         f.tensors["members.2.output.bias"] = {{1}, {0}};
       },
       "tensor 'members.2.output.bias' does not belong"},
      {"wrong shape",
       [](auto& f) {
         f.tensors["members.0.output.bias"] = {{2}, {0, 0}};
       },
       "tensor 'members.0.output.bias' is [2], expected [3]"},
      {"wrong rank",
       [](auto& f) {
         f.tensors["aggregates.mean"].shape = {17, 1};
       },
       "tensor 'aggregates.mean' is [17, 1], expected [17]"},
      {"hidden layer that does not fit the output",
       [](auto& f) {
         f.tensors["members.0.hidden.0.weight"] = {{2, 17}, std::vector<float>(34, 0)};
         f.tensors["members.0.hidden.0.bias"] = {{2}, {0, 0}};
       },
       "tensor 'members.0.output.weight' is [3, 17], expected [3, 2]"},
      {"too wide",
       [](auto& f) {
         f.tensors["members.0.hidden.0.weight"] = {{1000, 17}, std::vector<float>(17'000, 0)};
       },
       "is [1000, 17], expected [-1, 17]"},
      {"scale 0", [](auto& f) { f.tensors["aggregates.scale"].values[3] = 0; },
       "expected scales above 0"},
      {"one class",
       [](auto& f) {
         f.tensors["classes.point"] = {{1}, {50}};
       },
       "1 classes"},
      {"point outside its class", [](auto& f) { f.tensors["classes.point"].values[1] = 250; },
       "point 250 of class 1"},
      {"no examples", [](auto& f) { f.tensors.erase("check.probabilities"); }, "examples"},
      {"an example with a wrong answer",
       [](auto& f) { f.tensors["members.0.output.bias"].values[0] += 0.01F; },
       "example 0: class 0 has probability"},
      {"numbers that overflow",
       [](auto& f) {
         for (float& each : f.tensors["members.0.output.weight"].values) each = 3e38F;
       },
       "example 0: class 0 has probability nan"},
      {"transformer without layers", [](auto& f) { f.metadata["kind"] = "transformer"; },
       "metadata has no 'layer_types'"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    TensorFile file = BiasOnly({0, 1, 2});
    each.spoil(file);
    const auto network = Network::Load(file, "weights");
    ASSERT_FALSE(network);
    EXPECT_EQ(network.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(network.error().message, HasSubstr(each.message));
    EXPECT_TRUE(network.error().message.starts_with("weights: "));
    EXPECT_EQ(network.error().message.find('\n'), std::string::npos);
  }
}

std::string ShippedFolder() {
  return std::string(CARMA_SOURCE_DIR) + "/data/estimators";
}

Result<Network> LoadShipped(NetworkKind kind, Family family) {
  const std::string path = ShippedFolder() + "/" + WeightsFileName(kind, family);
  const auto bytes = base::ReadFile(path, kMaxTensorFileBytes);
  if (!bytes) return std::unexpected(bytes.error());
  const auto tensors = ParseTensors(*bytes, path);
  if (!tensors) return std::unexpected(tensors.error());
  return Network::Load(*tensors, path);
}

// Load() runs the examples in each file and compares the answers with libtorch's. They must agree
// to within 1e-4.
TEST(ShippedWeights, AgreeWithTheTrainersLibrary) {
  for (const NetworkKind kind : kKinds) {
    for (const Family family : kFamilies) {
      const auto network = LoadShipped(kind, family);
      ASSERT_TRUE(network) << network.error().message;
      EXPECT_EQ(network->kind(), kind);
      EXPECT_EQ(network->family(), family);
    }
  }
}

TEST(ShippedWeights, EveryFileHasItsCard) {
  for (const NetworkKind kind : kKinds) {
    for (const Family family : kFamilies) {
      const std::string name = WeightsFileName(kind, family);
      const std::string path = ShippedFolder() + "/" + name.substr(0, name.rfind('.')) + ".md";
      const auto card = base::ReadFile(path, 1 << 16);
      ASSERT_TRUE(card) << card.error().message;
      EXPECT_THAT(*card, HasSubstr("CC BY 4.0"));
      EXPECT_THAT(*card, HasSubstr("carma-train-gpumemnet --kind"));
      const auto bytes = base::ReadFile(ShippedFolder() + "/" + name, kMaxTensorFileBytes);
      ASSERT_TRUE(bytes);
      EXPECT_THAT(*card, HasSubstr(fmt::format("{} bytes", bytes->size())));
    }
  }
}

TEST(Encoder, MergedEqualLayersMatchTheWholeSequence) {
  const auto network = LoadShipped(NetworkKind::kTransformer, Family::kCnn);
  ASSERT_TRUE(network) << network.error().message;
  const NetworkInput merged = DescribeForNetworks(Convolutions(9, 64, 56), 32);
  NetworkInput whole = merged;
  whole.layers.clear();
  for (LayerToken token : merged.layers) {
    const long repeats = std::lround(std::exp(token.ln_repeats));
    token.ln_repeats = 0;
    for (long i = 0; i < repeats; ++i) whole.layers.push_back(token);
  }
  ASSERT_GT(whole.layers.size(), 2 * merged.layers.size());
  const auto one = network->Probabilities(merged);
  const auto other = network->Probabilities(whole);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t k = 0; k < one.size(); ++k) EXPECT_NEAR(one[k], other[k], 1e-5);
}

class GpuMemNetTest : public ::testing::TestWithParam<NetworkKind> {
 protected:
  std::unique_ptr<Estimator> estimator_ =
      GetParam() == NetworkKind::kMlp ? MakeGpuMemNetMlp() : MakeGpuMemNetTransformer();
};
INSTANTIATE_TEST_SUITE_P(Kinds, GpuMemNetTest, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(NetworkKindName(kind.param)); });

// A rule of thumb for perceptrons with Adam is 1454 MiB of context plus 5.2 times the parameters.
// It puts these networks well inside a class, so the trained classifier must predict that class.
TEST_P(GpuMemNetTest, PredictsPlainPerceptrons) {
  struct Case {
    int layers;
    std::int64_t width;
    int gib;
  };
  const Case cases[] = {{3, 256, 1}, {4, 1024, 1}, {10, 2400, 2}, {8, 3742, 3}};
  for (const Case& each : cases) {
    const model::LayerList list = Perceptron(each.layers, each.width);
    const double mib = 1454 + 5.2 * 4 * static_cast<double>(list.params) / (1 << 20);
    ASSERT_EQ(static_cast<int>(mib / 1024), each.gib) << mib;
    const auto answer = estimator_->Ask(BatchQuestion(list, 128));
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(answer->classes.size(), 2U);
    EXPECT_EQ(answer->classes[0], (MemoryClass{1024, each.gib}))
        << each.layers << " " << each.width;
    EXPECT_EQ(answer->classes[1], (MemoryClass{2048, each.gib / 2}));
    EXPECT_EQ(answer->point_mib / 1024, each.gib);
    EXPECT_GE(answer->bound_mib, answer->point_mib);
    EXPECT_EQ(answer->method, fmt::format("gpumemnet-{}", NetworkKindName(GetParam())));
  }
}

TEST_P(GpuMemNetTest, LargerBatchesNeedMore) {
  for (const model::LayerList& list : {Convolutions(12, 64, 112), TextEncoder(8, 512, 256)}) {
    const auto small = estimator_->Ask(BatchQuestion(list, 4));
    const auto large = estimator_->Ask(BatchQuestion(list, 60));
    ASSERT_TRUE(small && large);
    ASSERT_EQ(small->classes.size(), 1U);
    EXPECT_EQ(small->classes[0], (MemoryClass{8192, 0}));
    EXPECT_GT(large->point_mib, small->point_mib);
  }
}

TEST_P(GpuMemNetTest, ReportsWhyItHasNoAnswer) {
  model::LayerList shapeless = Perceptron(2, 8);
  for (model::Layer& layer : shapeless.layers) layer.in = layer.out = {};
  const model::LayerList empty;
  const model::LayerList list = Perceptron(2, 8);
  Question no_summary = BatchQuestion(list, 1);
  no_summary.layers = nullptr;
  Question unreadable = no_summary;
  unreadable.summary_trouble = "m.txt:3: broken";
  Question no_batch = BatchQuestion(list, 1);
  no_batch.batch.reset();
  const std::pair<Question, const char*> cases[] = {
      {no_summary, "no model summary"},
      {unreadable, "m.txt:3: broken"},
      {no_batch, "batch size is unknown"},
      {BatchQuestion(empty, 1), "no layers"},
      {BatchQuestion(shapeless, 1), "has no shapes"},
  };
  for (const auto& [question, reason] : cases) {
    const auto answer = estimator_->Ask(question);
    ASSERT_FALSE(answer) << reason;
    EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(answer.error().message, HasSubstr(reason));
  }
}

TEST_P(GpuMemNetTest, WarnsAboutModelsOutsideTheTrainingData) {
  const model::LayerList list = Convolutions(10, 64, 64);
  EXPECT_TRUE(estimator_->Ask(BatchQuestion(list, 16))->warnings.empty());

  Question unknown = BatchQuestion(list, 16);
  unknown.optimizer.reset();
  EXPECT_THAT(estimator_->Ask(unknown)->warnings, Contains(HasSubstr("assumes Adam")));
  Question other = BatchQuestion(list, 16);
  other.precision = Precision::kMixed;
  EXPECT_THAT(estimator_->Ask(other)->warnings, Contains(HasSubstr("Adam in fp32")));

  const auto huge = estimator_->Ask(BatchQuestion(list, 100'000));
  ASSERT_TRUE(huge) << huge.error().message;
  EXPECT_THAT(huge->warnings, Contains(HasSubstr("outside the networks' training data: ")));
  EXPECT_THAT(huge->warnings, Contains(HasSubstr("no upper limit: 32768 MiB or more")));

  model::LayerList collapsed = list;
  collapsed.collapsed = true;
  EXPECT_THAT(estimator_->Ask(BatchQuestion(collapsed, 16))->warnings,
              Contains(HasSubstr("hides layers")));

  EXPECT_THAT(estimator_->Ask(BatchQuestion(TextEncoder(4, 256, 128), 16))->warnings,
              Contains(HasSubstr("measured runs of transformer models")));
}

TEST_P(GpuMemNetTest, IsSafeToUseFromSeveralThreads) {
  const model::LayerList list = Perceptron(4, 1024);
  const std::int64_t wanted = estimator_->Ask(BatchQuestion(list, 128))->point_mib;
  const auto fresh =
      GetParam() == NetworkKind::kMlp ? MakeGpuMemNetMlp() : MakeGpuMemNetTransformer();
  std::vector<std::int64_t> points(4);
  std::vector<std::thread> threads;
  for (std::int64_t& point : points)
    threads.emplace_back([&] { point = fresh->Ask(BatchQuestion(list, 128))->point_mib; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(points, ::testing::Each(wanted));
}

class WeightsFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + fmt::format("weights-{}", ::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(ShippedFolder(), folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(WeightsFolderTest, ReplacesTheShippedWeights) {
  const model::LayerList list = Convolutions(10, 64, 64);
  const auto loaded = LoadGpuMemNet(NetworkKind::kMlp, folder_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ((*loaded)->Ask(BatchQuestion(list, 16))->point_mib,
            MakeGpuMemNetMlp()->Ask(BatchQuestion(list, 16))->point_mib);
}

TEST_F(WeightsFolderTest, IsUsedOnlyByTheNetworks) {
  std::filesystem::remove(folder_ + "/gpumemnet-mlp-cnn.safetensors");
  EXPECT_FALSE(MakeWithWeights(*FindEstimator("gpumemnet-mlp"), folder_));
  EXPECT_TRUE(MakeWithWeights(*FindEstimator("gpumemnet-mlp"), ""));
  EXPECT_TRUE(MakeWithWeights(*FindEstimator("gpumemnet-transformer"), folder_));
  EXPECT_TRUE(MakeWithWeights(*FindEstimator("horus"), folder_));
}

TEST_F(WeightsFolderTest, IsRefusedIfAFileIsMissingWrongOrBroken) {
  const std::string cnn = folder_ + "/gpumemnet-mlp-cnn.safetensors";
  const std::string mlp = folder_ + "/gpumemnet-mlp-mlp.safetensors";
  std::filesystem::copy_file(mlp, cnn, std::filesystem::copy_options::overwrite_existing);
  const auto wrong = LoadGpuMemNet(NetworkKind::kMlp, folder_);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, cnn + ": kind mlp, family mlp, expected mlp, cnn");

  std::filesystem::resize_file(cnn, 1000);
  const auto broken = LoadGpuMemNet(NetworkKind::kMlp, folder_);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(broken.error().message, HasSubstr(cnn));

  std::filesystem::remove(cnn);
  const auto missing = LoadGpuMemNet(NetworkKind::kMlp, folder_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace carma::estimate

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "estimate/asking.h"
#include "estimate/calibration.h"
#include "estimate/estimator.h"
#include "estimate/structural/safety.h"
#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;
using model::Shape;

// A convolution with 64 channels on 64 x 64 pixels, a norm, and a linear layer with 16 M weights.
LayerList SmallNet() {
  LayerList list;
  list.has_input_shapes = true;
  const Shape image = Of({-1, 3, 64, 64});
  const Shape maps = Of({-1, 64, 64, 64});
  const auto add = [&](const char* type, const Shape& in, const Shape& out, std::int64_t params) {
    Layer layer;
    layer.type = type;
    layer.in = in;
    layer.out = out;
    layer.params = params;
    list.params += params;
    list.layers.push_back(layer);
  };
  add("Conv2d", image, maps, 1728);
  add("BatchNorm2d", maps, maps, 128);
  add("Linear", Of({-1, 4096}), Of({-1, 4096}), 16'777'216);
  return list;
}

Question Ask(const LayerList& list, std::int64_t batch) {
  Question question;
  question.layers = &list;
  question.batch = batch;
  question.optimizer = Optimizer::kMomentum;
  question.precision = Precision::kFp32;
  return question;
}

double TermOf(const Answer& answer, std::string_view name) {
  for (const Term& term : answer.terms) {
    if (term.name == name) return term.mib;
  }
  return 0;
}

TEST(Structural, CountsOneLargeTensorFiveTimes) {
  // The 381 MiB of weights exceed any activation, so they count five times: weight, gradient, a
  // temporary and Adam's two states. The optimizer's step does not count them again.
  LayerList list;
  list.has_input_shapes = true;
  Layer layer;
  layer.type = "Linear";
  layer.in = layer.out = Of({-1, 10'000});
  layer.params = list.params = 100'000'000;
  list.layers.push_back(layer);
  Question question = Ask(list, 1);
  question.optimizer = Optimizer::kAdam;
  const auto answer = MakeStructural()->Ask(question);
  ASSERT_TRUE(answer);
  const double weights_mib = 4.0 * 100'000'000 / (1 << 20);
  EXPECT_NEAR(static_cast<double>(answer->point_mib) - TermOf(*answer, kContextTerm),
              5 * weights_mib, 1);
}

// The kept memory including fragmentation, assuming that each layer keeps one tensor.
double WithGaps(double kept_mib, const LayerList& list) {
  const double mean_mib = kept_mib / static_cast<double>(list.layers.size());
  return (1.01 + 0.061 / (1 + mean_mib / 20)) * kept_mib;
}

TEST(Structural, TermsAddUpToThePoint) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  const auto answer = structural->Ask(Ask(list, 256));
  ASSERT_TRUE(answer);
  double sum = 0;
  for (const Term& term : answer->terms) sum += term.mib;
  EXPECT_EQ(answer->point_mib, std::llround(sum));
  // The backward pass needs the image, the convolution's result and the linear layer's input.
  const double kept_mib = 256 * 4.0 * (12'288 + 262'144 + 4096) / (1 << 20);
  EXPECT_NEAR(TermOf(*answer, "kept for backward"), WithGaps(kept_mib, list), 0.6);
  EXPECT_GT(answer->bound_mib, answer->point_mib);
  EXPECT_TRUE(answer->warnings.empty());
}

TEST(Structural, SmallTensorsLeaveMoreGaps) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  const auto kept_each = [&](std::int64_t batch) {
    return TermOf(*structural->Ask(Ask(list, batch)), "kept for backward") /
           static_cast<double>(batch);
  };
  EXPECT_GT(kept_each(1), 1.05 * kept_each(100'000));
  EXPECT_LT(kept_each(1), 1.061 * kept_each(100'000));
}

TEST(Structural, CountsOptimizersAndPrecisions) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  const auto point = [&](Optimizer optimizer, Precision precision) {
    Question question = Ask(list, 256);
    question.optimizer = optimizer;
    question.precision = precision;
    return structural->Ask(question)->point_mib;
  };
  const std::int64_t params_mib = 64;
  EXPECT_NEAR(
      point(Optimizer::kMomentum, Precision::kFp32) - point(Optimizer::kSgd, Precision::kFp32),
      params_mib, 1);
  EXPECT_NEAR(
      point(Optimizer::kAdam, Precision::kFp32) - point(Optimizer::kMomentum, Precision::kFp32),
      params_mib, 1);
  EXPECT_LT(point(Optimizer::kAdam, Precision::kMixed), point(Optimizer::kAdam, Precision::kFp32));
  EXPECT_LT(point(Optimizer::kAdam, Precision::kHalf), point(Optimizer::kAdam, Precision::kMixed));
}

// A small batch's activations leave no gap that is large enough for the temporaries of 64 MiB of
// weights.
TEST(Structural, LargeWeightsNeedTheirOwnMemoryInTheStep) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  EXPECT_GT(TermOf(*structural->Ask(Ask(list, 8)), "optimizer step for large tensors"), 80);
  EXPECT_EQ(TermOf(*structural->Ask(Ask(list, 256)), "optimizer step for large tensors"), 0);
}

TEST(Structural, ContextDependsOnTheLibrariesAndTheSite) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  Question question = Ask(list, 8);
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 1712);
  Site site;
  site.context_shift_mib = -100;
  question.site = &site;
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 1612);
  list.layers.erase(list.layers.begin(), list.layers.begin() + 2);
  question.site = nullptr;
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 1455) << "no cuDNN code";
}

TEST(Structural, CountsTheCodeThatEachPyTorchVersionLoads) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.torch = "2.11.0+cu130";
  Question question = Ask(list, 8);
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 828);
  list.torch = "1.12.1+cu113";
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 1712);
  Site site;
  site.context_shift_mib = -755;  // a shift learned from tasks overrides a version's constant
  question.site = &site;
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 700 + 20);
  list.torch = "2.11.0+cu130";
  EXPECT_EQ(TermOf(*structural->Ask(question), kContextTerm), 700 + 20);
}

TEST(Structural, KeepsGradientsThatPyTorchOnlyClears) {
  // The difference is 30 % of 64 MiB of weights: the gradients that usually do not exist yet at the
  // moment when all activations exist.
  LayerList list = SmallNet();
  list.torch = "1.12.1+cu113";
  const double freed_mib = [&] {
    LayerList newer = list;
    newer.torch = "2.11.0+cu130";
    return TermOf(*MakeStructural()->Ask(Ask(newer, 512)), "parameters and optimizer");
  }();
  const double kept_mib =
      TermOf(*MakeStructural()->Ask(Ask(list, 512)), "parameters and optimizer");
  EXPECT_NEAR(kept_mib - freed_mib, 0.3 * 64, 0.1);
}

TEST(Structural, UsesTheHeldMemoryOfADryRun) {
  // 64 MiB of weights, 48 MiB of which belong to a frozen 4-bit model, and an 8-bit optimizer.
  LayerList list = SmallNet();
  const double plain_mib =
      TermOf(*MakeStructural()->Ask(Ask(list, 512)), "parameters and optimizer");
  EXPECT_NEAR(plain_mib, 2.7 * 64, 0.1) << "momentum";
  constexpr double kMib = 1 << 20;
  list.held = model::HeldBytes{.trained = 16 * kMib,
                               .frozen = 6 * kMib,
                               .others = 1 * kMib,
                               .states = 8 * kMib,
                               .step = 2 * kMib};
  const auto held = MakeStructural()->Ask(Ask(list, 512));
  EXPECT_NEAR(TermOf(*held, "parameters and optimizer"), 7 + 8 + 1.7 * 16, 0.1);
  Question half = Ask(list, 512);
  half.precision = Precision::kHalf;
  EXPECT_NEAR(TermOf(*MakeStructural()->Ask(half), "parameters and optimizer"), 2.7 * 32, 0.1)
      << "counted in a different precision";
}

TEST(Structural, PrefersBytesCountedByADryRun) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.saved = model::SavedBytes{.per_sample = 8.0 * 278'528, .constant = 0};
  const auto answer = structural->Ask(Ask(list, 256));
  const double twice_mib = 256 * 8.0 * 278'528 / (1 << 20);  // twice the bytes that the rules count
  EXPECT_NEAR(TermOf(*answer, "kept for backward"), WithGaps(twice_mib, list), 1);
}

// carma_summary.py --precision amp already counts 16-bit tensors and the 16-bit copies of weights.
TEST(Structural, ConvertsBytesOfADryRunFromTheirPrecision) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.saved = model::SavedBytes{.per_sample = 1 << 20, .constant = 0};
  const auto kept_mib = [&](const char* counted, Precision asked) {
    list.precision = counted;
    Question question = Ask(list, 1000);
    question.precision = asked;
    return TermOf(*structural->Ask(question), "kept for backward");
  };
  for (const auto& [counted, asked] :
       {std::pair("amp", Precision::kMixed), std::pair("bf16", Precision::kHalf),
        std::pair("fp32", Precision::kFp32), std::pair("bf16", Precision::kMixed)}) {
    EXPECT_NEAR(kept_mib(counted, asked), 1013, 1) << counted;
  }
  EXPECT_NEAR(kept_mib("fp32", Precision::kMixed), 508, 1) << "half, with a few more gaps";
  EXPECT_NEAR(kept_mib("amp", Precision::kFp32), 2024, 1);

  const auto weights_mib = [&](const char* counted) {
    list.precision = counted;
    Question question = Ask(list, 1000);
    question.precision = Precision::kMixed;
    return TermOf(*structural->Ask(question), "parameters and optimizer");
  };
  EXPECT_NEAR(weights_mib("fp32") - weights_mib("amp-bf16"), 32, 1) << "copies counted once";

  Question question = Ask(list, 1000);
  question.precision = Precision::kMixed;
  list.precision = "amp";
  const auto exact = structural->Ask(question);
  list.precision = "fp32";
  const auto converted = structural->Ask(question);
  EXPECT_LT(static_cast<double>(exact->bound_mib) / static_cast<double>(exact->point_mib),
            static_cast<double>(converted->bound_mib) / static_cast<double>(converted->point_mib));
}

TEST(Structural, ALargerBatchNeverNeedsLess) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  std::int64_t before = 0;
  for (std::int64_t batch = 1; batch <= 400; ++batch) {
    const auto answer = structural->Ask(Ask(list, batch));
    ASSERT_TRUE(answer);
    EXPECT_GE(answer->point_mib, before) << batch;
    before = answer->point_mib;
  }
}

TEST(Structural, DeclinesIfMostIsHidden) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.format = model::SummaryFormat::kTorchInfo;
  list.collapsed = true;
  list.hidden_params = list.params / 4;
  EXPECT_TRUE(structural->Ask(Ask(list, 8)));
  list.hidden_params = list.params / 4 * 3;
  const auto answer = structural->Ask(Ask(list, 8));
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("depth=20"), std::string::npos) << answer.error().message;
}

// If the totals state the size of all outputs, the outputs of hidden layers are derived from the
// totals.
TEST(Structural, UsesTheTotalsIfMostLayersAreHidden) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.format = model::SummaryFormat::kTorchInfo;
  list.collapsed = true;
  list.hidden_params = list.params / 4 * 3;
  list.pass_bytes = 512.0 * (1 << 20);
  EXPECT_FALSE(structural->Ask(Ask(list, 8))) << "the batch of the totals is unknown";
  list.batch = 4;
  const auto answer = structural->Ask(Ask(list, 8));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_NEAR(TermOf(*answer, "kept for backward"), 0.92 * 1024, 0.5);
  LayerList smooth = list;
  smooth.layers.push_back(list.layers[1]);
  smooth.layers.back().type = "SiLU";
  EXPECT_GT(structural->Ask(Ask(smooth, 8))->point_mib, answer->point_mib)
      << "activations that keep their input are not in the totals";
  LayerList bare = list;
  std::erase_if(bare.layers, [](const Layer& layer) { return layer.type == "BatchNorm2d"; });
  EXPECT_GT(structural->Ask(Ask(bare, 8))->point_mib, answer->point_mib) << "there is no norm";
  EXPECT_EQ(TermOf(*answer, "widest convolution"), 0);
  const double context_mib = TermOf(*answer, kContextTerm);
  EXPECT_NEAR((static_cast<double>(answer->bound_mib) - context_mib) /
                  (static_cast<double>(answer->point_mib) - context_mib),
              1.80, 0.01)
      << "at a coverage of 95 %";
  EXPECT_THAT(answer->warnings, ::testing::Contains(::testing::HasSubstr("depth=20")));

  EXPECT_FALSE(SplitFormula(*structural, Ask(list, 8)))
      << "the calibration must not learn from totals";
  Site site;
  site.ratios.assign(kFullCalibration, 1.0);
  Question here = Ask(list, 8);
  here.site = &site;
  EXPECT_EQ(structural->Ask(here)->bound_mib, answer->bound_mib)
      << "the site's ratios do not apply to totals";
}

TEST(Structural, DoesNotEstimateBlocksFromTheHead) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.format = model::SummaryFormat::kTorchInfo;
  list.collapsed = true;
  list.layers[2].type = "MyBlock";
  list.layers[2].kind = model::RowKind::kUnknown;
  list.layers[2].params = list.hidden_params = 1000;
  Layer head;
  head.type = "Linear";
  head.in = head.out = Of({-1, 1000});
  head.params = 1'000'000;
  list.layers.push_back(head);
  list.params += head.params + 1000;
  EXPECT_FALSE(structural->Ask(Ask(list, 8))) << "most of the body is hidden";
  list.layers[0].type = "Linear";
  list.layers[0].params = 10'000;
  EXPECT_TRUE(structural->Ask(Ask(list, 8)));
}

TEST(Structural, CrossEntropyOfADryRunIsCountedOnce) {
  const auto structural = MakeStructural();
  LayerList list;
  list.has_input_shapes = true;
  Layer table;
  table.type = "Embedding";
  table.in = Of({-1, 128});
  table.out = Of({-1, 128, 64});
  table.params = 50'000 * 64;
  Layer head;
  head.type = "Linear";
  head.in = table.out;
  head.out = Of({-1, 128, 50'000});
  head.params = 50'000 * 64;
  list.layers = {table, head};
  list.params = table.params + head.params;
  list.saved = model::SavedBytes{.per_sample = 1 << 20, .constant = 0};
  const auto loss_mib = [&](const char* loss) {
    list.loss = loss;
    return TermOf(*structural->Ask(Ask(list, 8)), "loss over the vocabulary");
  };
  EXPECT_GT(loss_mib("sum"), 0);
  EXPECT_NEAR(loss_mib("cross-entropy"), loss_mib("sum") * 2 / 3, 0.1);
  EXPECT_NEAR(loss_mib("own"), loss_mib("sum") * 2 / 3, 0.1);
  // The logits are counted in the loss. The largest other tensor is the table's result.
  EXPECT_NEAR(TermOf(*structural->Ask(Ask(list, 8)), "largest tensor"),
              0.81 * 8 * 4 * 128 * 64 / (1 << 20), 0.01);
}

TEST(Structural, CountsGradientCopiesOnSeveralGpus) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  Question question = Ask(list, 8);
  const std::int64_t alone_mib = structural->Ask(question)->point_mib;
  question.gpus = 2;
  EXPECT_NEAR(static_cast<double>(structural->Ask(question)->point_mib - alone_mib), 566 + 64, 1);
}

TEST(Structural, CountsFrozenWeightsOnce) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.trainable = list.params;
  for (Layer& layer : list.layers) layer.trainable = layer.params;
  Question question = Ask(list, 8);
  question.optimizer = Optimizer::kAdam;
  const auto weights_mib = [&] {
    double sum_mib = 0;
    const auto answer = structural->Ask(question);
    for (const Term& term : answer->terms)
      if (term.name != kContextTerm && term.name != "kept for backward" &&
          term.name != "widest convolution" && term.name != "largest tensor")
        sum_mib += term.mib;
    return sum_mib;
  };
  const double all_mib = weights_mib();
  list.layers[2].trainable = 0;  // 64 MiB
  list.trainable -= list.layers[2].params;
  EXPECT_NEAR(weights_mib(), 64, 1) << "no other tensor is large";
  EXPECT_GT(all_mib, 5 * 64);
}

TEST(Structural, ReportsItsAssumptions) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  list.collapsed = true;
  Question question = Ask(list, 8);
  question.optimizer.reset();
  question.precision.reset();
  question.gpus = 2;
  EXPECT_EQ(structural->Ask(question)->warnings.size(), 4U);
}

TEST(Structural, HasNoAnswerWithoutShapesOrBatch) {
  const auto structural = MakeStructural();
  const LayerList list = SmallNet();
  Question no_batch = Ask(list, 8);
  no_batch.batch.reset();
  const LayerList empty;
  Question no_layers;
  no_layers.summary_trouble = "model.txt:3: not a summary";
  no_layers.batch = 8;
  for (const Question& question : {no_batch, Ask(empty, 8), no_layers}) {
    const auto answer = structural->Ask(question);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
  }
  EXPECT_EQ(structural->Ask(no_layers).error().message, "model.txt:3: not a summary");
}

TEST(Structural, WidensTheBoundForUncomparedCode) {
  const auto structural = MakeStructural();
  LayerList list = SmallNet();
  const auto familiar = structural->Ask(Ask(list, 8));
  Layer own = list.layers[1];
  for (const char* type : {"MyGate", "MyAttention", "MyNet"}) {
    own.type = type;
    own.kind = model::RowKind::kContainer;
    own.params = 0;
    list.layers.push_back(own);
  }
  const auto unfamiliar = structural->Ask(Ask(list, 8));
  ASSERT_TRUE(familiar && unfamiliar);
  EXPECT_EQ(unfamiliar->point_mib, familiar->point_mib);
  EXPECT_GT(unfamiliar->bound_mib, familiar->bound_mib);
  ASSERT_EQ(unfamiliar->warnings.size(), 1U);
  EXPECT_NE(unfamiliar->warnings[0].find("3 custom module types"), std::string::npos);
  list.saved = model::SavedBytes{.per_sample = 1 << 20, .constant = 0};
  EXPECT_TRUE(structural->Ask(Ask(list, 8))->warnings.empty()) << "custom code is counted";
}

TEST(Safety, RisesWithCoverageAndUncertainty) {
  double before = 0;
  for (const double coverage : {0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.999}) {
    const double factor = ShippedFactor(Evidence::kShapes, coverage);
    EXPECT_GE(factor, before);
    before = factor;
    EXPECT_LE(ShippedFactor(Evidence::kExactBytes, coverage), factor);
    EXPECT_LE(ShippedFactor(Evidence::kCompared, coverage), factor);
    EXPECT_GE(ShippedFactor(Evidence::kUncompared, coverage), factor);
    EXPECT_GE(ShippedFactor(Evidence::kText, coverage), factor);
    EXPECT_GE(ShippedFactor(Evidence::kOwnAttention, coverage),
              ShippedFactor(Evidence::kOwnBlocks, coverage));
    EXPECT_GE(ShippedFactor(Evidence::kOwnBlocks, coverage),
              ShippedFactor(Evidence::kCompared, coverage));
    EXPECT_GE(ShippedFactor(Evidence::kPartial, coverage),
              ShippedFactor(Evidence::kText, coverage));
  }
}

TEST(Horus, ReproducesPublishedEstimates) {
  // ResNet-18 on 32 x 32 images has 11.2 M parameters and 150 k activations.
  LayerList list;
  list.params = 11'220'132;
  Layer layer;
  layer.type = "Conv2d";
  layer.out = Of({-1, 150'000});
  list.layers.push_back(layer);
  const auto horus = MakeHorus();
  EXPECT_NEAR(static_cast<double>(horus->Ask(Ask(list, 32))->point_mib), 2231.6, 10);
  EXPECT_NEAR(static_cast<double>(horus->Ask(Ask(list, 128))->point_mib), 6398, 10);
}

TEST(FakeTensor, CountsParametersAndKeptBytes) {
  const auto faketensor = MakeFakeTensor();
  LayerList list = SmallNet();
  const auto by_rules = faketensor->Ask(Ask(list, 256));
  ASSERT_TRUE(by_rules);
  EXPECT_NEAR(static_cast<double>(by_rules->point_mib), 64 + 272, 1);
  list.saved = model::SavedBytes{.per_sample = 1 << 20, .constant = 2 << 20};
  EXPECT_EQ(faketensor->Ask(Ask(list, 256))->point_mib, 64 + 256 + 2);
}

}  // namespace
}  // namespace carma::estimate

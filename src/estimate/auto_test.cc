#include <gtest/gtest.h>

#include "estimate/estimator.h"
#include "estimate/gpumemnet.h"
#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

using model::Layer;
using model::LayerList;

// A convolutional network like the generated networks that the classifier was trained on: ten
// convolutions of increasing width, each with a norm and an activation, and then a classifier. It
// has no blocks.
LayerList Generated() {
  LayerList list;
  list.has_input_shapes = true;
  std::int64_t width = 3;
  const auto add = [&](const char* type, std::int64_t in, std::int64_t out, std::int64_t params) {
    Layer layer;
    layer.type = type;
    layer.in = Of({-1, in, 128, 128});
    layer.out = Of({-1, out, 128, 128});
    layer.params = params;
    list.params += params;
    list.layers.push_back(layer);
  };
  for (int i = 0; i < 10; ++i) {
    const std::int64_t next = 32 + 8 * i;
    add("Conv2d", width, next, 9 * width * next + next);
    add("BatchNorm2d", next, next, 2 * next);
    add("ReLU", next, next, 0);
    width = next;
  }
  Layer head;
  head.type = "Linear";
  head.in = Of({-1, width});
  head.out = Of({-1, 100});
  head.params = width * 100 + 100;
  list.params += head.params;
  list.layers.push_back(head);
  return list;
}

Question Ask(const LayerList& list, std::int64_t batch) {
  Question question;
  question.layers = &list;
  question.batch = batch;
  question.optimizer = Optimizer::kAdam;
  question.precision = Precision::kFp32;
  return question;
}

TEST(Auto, KeepsNetworksLikeTheTrainingDataWithinTheirClass) {
  const LayerList list = Generated();
  const auto estimator = MakeAuto();
  for (const std::int64_t batch : {2, 4, 16}) {
    const auto alike = ClassAmongAlike(Ask(list, batch));
    ASSERT_TRUE(alike) << batch;
    const auto answer = estimator->Ask(Ask(list, batch));
    const auto formula = MakeStructural()->Ask(Ask(list, batch));
    ASSERT_TRUE(answer && formula);
    EXPECT_GE(answer->point_mib, alike->low_mib);
    EXPECT_LT(answer->point_mib, alike->high_mib.value_or(1 << 30));
    EXPECT_GT(answer->bound_mib, formula->bound_mib) << "its bound is wider";
    if (formula->point_mib >= alike->low_mib &&
        formula->point_mib < alike->high_mib.value_or(1 << 30)) {
      EXPECT_EQ(answer->point_mib, formula->point_mib) << "within the class, the formula is used";
    }
  }
}

TEST(Auto, UsesClassesOnlyWithinTheTrainingData) {
  LayerList list = Generated();
  Question momentum = Ask(list, 16);
  momentum.optimizer = Optimizer::kMomentum;
  EXPECT_FALSE(ClassAmongAlike(momentum));
  Question half = Ask(list, 16);
  half.precision = Precision::kMixed;
  EXPECT_FALSE(ClassAmongAlike(half));
  EXPECT_FALSE(ClassAmongAlike(Ask(list, 1'000'000))) << "outside the range of the training data";
  list.layers[3].kind = model::RowKind::kContainer;
  EXPECT_FALSE(ClassAmongAlike(Ask(list, 16))) << "not all rows are leaves";
}

}  // namespace
}  // namespace carma::estimate

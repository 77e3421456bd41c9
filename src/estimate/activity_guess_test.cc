#include "estimate/activity_guess.h"

#include <gtest/gtest.h>

#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

model::LayerList SmallNetwork(std::int64_t channels) {
  const model::Shape image = Of({-1, 3, 32, 32});
  const model::Shape maps = Of({-1, channels, 32, 32});
  model::LayerList list =
      List({Module("Conv2d", image, maps, 27 * channels), Module("ReLU", maps, maps),
            Module("Linear", Of({-1, channels}), Of({-1, 10}), 10 * channels)});
  list.params = 37 * channels;
  return list;
}

TEST(ActivityGuess, CountsEachWeightAsOftenAsItIsUsed) {
  EXPECT_EQ(MultiplyAdds(SmallNetwork(8)), 27 * 8 * 32 * 32 + 10 * 8);
  model::LayerList collapsed = SmallNetwork(8);
  collapsed.collapsed = true;
  EXPECT_FALSE(MultiplyAdds(collapsed)) << "the layers inside the block are unknown";
}

TEST(ActivityGuess, RisesWithTheWorkOfASample) {
  const auto small = GuessActivity(SmallNetwork(8));
  const auto large = GuessActivity(SmallNetwork(4096));
  ASSERT_TRUE(small && large);
  EXPECT_LT(small->sm_active, 0.05);
  EXPECT_GT(large->sm_active, 3 * small->sm_active);
  EXPECT_LT(large->sm_active, 1);
}

TEST(ActivityGuess, LinearLayersNeedFewerMultiplyAdds) {
  const auto linear = [](std::int64_t width) {
    return GuessActivity(List({Module("Linear", Of({-1, width}), Of({-1, width}), width * width),
                               Module("Linear", Of({-1, width}), Of({-1, width}), width * width)}));
  };
  const auto narrow = linear(128);
  const auto wide = linear(8192);
  ASSERT_TRUE(narrow && wide);
  EXPECT_LT(narrow->sm_active, 0.05);
  EXPECT_NEAR(wide->sm_active, 0.77, 0.05) << "134 million multiply-adds";
  EXPECT_LT(wide->mean_error, 0.1);
}

}  // namespace
}  // namespace carma::estimate

#include "core/values/mps_guess.h"

#include <gtest/gtest.h>

#include <cmath>

namespace carma::core {
namespace {

TEST(GuessMps, SmallKernelsLoseAndLargeOnesWin) {
  // The first network is deep with a small batch. The second is shallow with a large batch.
  const MpsParameters small = GuessMps(0.67, {.batch_size = 32, .layers = 95});
  const MpsParameters large = GuessMps(0.87, {.batch_size = 128, .layers = 16});
  EXPECT_NEAR(small.sensitivity, 2.02, 0.01);
  EXPECT_NEAR(large.sensitivity, 0.26, 0.01);
  EXPECT_NEAR(small.pressure, 0.363, 0.001);
  EXPECT_NEAR(large.pressure, 2.632, 0.001);
}

TEST(GuessMps, GuessesWithoutLayersOrBatch) {
  const MpsParameters batch = GuessMps(0.5, {.batch_size = 128});
  EXPECT_DOUBLE_EQ(batch.sensitivity, 0.787 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(batch.pressure, 1.757 * 0.25);
  EXPECT_DOUBLE_EQ(GuessMps(0.5, {}).sensitivity, GuessMps(0.5, {.batch_size = 64}).sensitivity);
  EXPECT_DOUBLE_EQ(GuessMps(0.9, {.transformer = true}).pressure, 0.649 * 0.9);
}

TEST(GrainOf, IsKnownForConvolutionalNetworksOnly) {
  EXPECT_DOUBLE_EQ(*GrainOf({.batch_size = 32, .layers = 60}), 0.25);
  EXPECT_DOUBLE_EQ(*GrainOf({.batch_size = 1, .layers = 500}), 0.15) << "no finer than in the fit";
  EXPECT_DOUBLE_EQ(*GrainOf({.batch_size = 4096, .layers = 2}), 4) << "nor coarser";
  EXPECT_FALSE(GrainOf({.transformer = true, .batch_size = 32, .layers = 60}));
  EXPECT_FALSE(GrainOf({.batch_size = 32}));
  EXPECT_FALSE(GrainOf({.layers = 60}));
  const MpsParameters whole = GuessMps(0.5, {.batch_size = 32, .layers = 60});
  EXPECT_EQ(GuessByGrain(0.5, 0.25), whole);
}

}  // namespace
}  // namespace carma::core

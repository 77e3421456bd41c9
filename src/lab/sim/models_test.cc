#include "lab/sim/models.h"

#include <gtest/gtest.h>

#include <cmath>

namespace carma::sim {
namespace {

TEST(PowerW, AgreesWithMeasuredCards) {
  EXPECT_DOUBLE_EQ(PowerW({}, 0), 53.8);
  EXPECT_NEAR(PowerW({}, 0.62), 225, 11);
  EXPECT_NEAR(PowerW({}, 0.99), 272, 4);
  PowerModel hot;
  hot.dynamic_w = 1'000;
  EXPECT_DOUBLE_EQ(PowerW(hot, 1), 275);
}

}  // namespace
}  // namespace carma::sim

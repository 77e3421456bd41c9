#include "estimate/structural/safety.h"

#include <gtest/gtest.h>

#include "estimate/structural/test_layers.h"

namespace carma::estimate {
namespace {

TEST(Familiar, CountsKindsOfModulesThatNoMeasuredModelHad) {
  const model::Shape shape = Of({-1, 8});
  EXPECT_EQ(UnfamiliarModules(List({Module("Conv2d", shape, shape), Module("ReLU", shape, shape),
                                    Module("Sequential", shape, shape)})),
            0U);
  EXPECT_EQ(UnfamiliarModules(List({Module("MyGate", shape, shape), Module("MyGate", shape, shape),
                                    Module("MyNet", shape, shape)})),
            2U);
  EXPECT_EQ(UnfamiliarModules({}), 0U);
}

}  // namespace
}  // namespace carma::estimate

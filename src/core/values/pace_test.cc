#include "core/values/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::core {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PacesOf, AreRelativeToTheFastestGpu) {
  EXPECT_THAT(PacesOf({}), IsEmpty());
  EXPECT_THAT(PacesOf(std::vector<GpuInfo>{{.speed = 2.6}, {.speed = 2.6}}),
              ElementsAre(DoubleEq(1), DoubleEq(1)));
  EXPECT_THAT(PacesOf(std::vector<GpuInfo>{{.speed = 0.5}, {.speed = 2}, {.speed = 1}}),
              ElementsAre(DoubleEq(0.25), DoubleEq(1), DoubleEq(0.5)));
}

TEST(PacesOf, AreAllEqualIfOneIsUnknown) {
  EXPECT_THAT(PacesOf(std::vector<GpuInfo>{{.speed = 2}, {}, {.speed = 1}}),
              ElementsAre(DoubleEq(1), DoubleEq(1), DoubleEq(1)));
}

TEST(TypeSpeed, ParsesBackFromItsText) {
  for (const char* text : {"a6000=0.5", "rtx 6000 ada=0.85", "H100=2.61"}) {
    const Result<TypeSpeed> read = ParseTypeSpeed(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(TextOf(*read), text);
  }
  EXPECT_EQ(ParseTypeSpeed(" a40 = 2 ").value_or(TypeSpeed{}), (TypeSpeed{"a40", 2}));
  for (const char* text : {"", "a6000", "=1", "a6000=", "a6000=fast", "a6000=0", "a6000=-1",
                           "a6000=nan", "a6000=1e9", "a\nb=1"})
    EXPECT_FALSE(ParseTypeSpeed(text)) << text;
  EXPECT_EQ(ParseTypeSpeed("a6000").error().message,
            "expected a GPU type and its relative speed, like a6000=0.5, got 'a6000'");
}

TEST(SpeedOf, UsesTheFirstEntryThatNamesTheModel) {
  const std::vector<TypeSpeed> known{{"a100-80gb", 1.15}, {"a100", 1}};
  EXPECT_EQ(SpeedOf(known, "NVIDIA A100-SXM4-80GB"), 1.15);
  EXPECT_EQ(SpeedOf(known, "NVIDIA A100-PCIE-40GB"), 1);
  EXPECT_EQ(SpeedOf(known, "NVIDIA H100 80GB HBM3"), 0);
}

}  // namespace
}  // namespace carma::core

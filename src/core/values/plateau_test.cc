#include "core/values/plateau.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

Time At(int seconds) {
  return Time{std::chrono::seconds(seconds)};
}

TEST(PlateauTest, HasNoStartWithoutSamples) {
  const Plateau plateau(9'000);
  EXPECT_FALSE(plateau.since());
  EXPECT_FALSE(plateau.StandsSince(At(1'000'000)));
  EXPECT_EQ(plateau.peak_mib(), 9'000);
}

TEST(PlateauTest, BeginsAtTheLastRise) {
  Plateau plateau;
  EXPECT_FALSE(plateau.See(0, At(1)));
  EXPECT_TRUE(plateau.See(10'000, At(2)));
  EXPECT_FALSE(plateau.See(10'100, At(50))) << "one percent does not count as a rise";
  EXPECT_FALSE(plateau.See(4'000, At(60)));
  EXPECT_EQ(plateau.since(), At(2));
  EXPECT_EQ(plateau.peak_mib(), 10'100);
  EXPECT_TRUE(plateau.StandsSince(At(2)));
  EXPECT_FALSE(plateau.StandsSince(At(1)));
  EXPECT_TRUE(plateau.See(10'101, At(70)));
  EXPECT_EQ(plateau.since(), At(70));
}

TEST(PlateauTest, ManySmallStepsAreARise) {
  Plateau plateau;
  plateau.See(10'000, At(0));
  for (int i = 1; i <= 20; ++i) plateau.See(10'000 + 50 * i, At(i));
  EXPECT_EQ(plateau.peak_mib(), 11'000);
  EXPECT_GE(plateau.since(), At(18));
}

TEST(PlateauTest, DoubtRestartsThePlateau) {
  Plateau plateau;
  plateau.Doubt(At(1));
  EXPECT_FALSE(plateau.since());
  plateau.See(10'000, At(2));
  plateau.Doubt(At(500));
  EXPECT_EQ(plateau.since(), At(500));
}

TEST(PlateauTest, EarlierMemoryCountsOnlyForThePeak) {
  Plateau plateau(20'000);
  EXPECT_TRUE(plateau.See(8'000, At(5)));
  EXPECT_EQ(plateau.since(), At(5));
  EXPECT_EQ(plateau.peak_mib(), 20'000);
}

TEST(PlateauTest, TheNeedIsALittleMoreThanThePeak) {
  EXPECT_EQ(NeedAfterPlateau(10'000), 10'600);
  EXPECT_EQ(NeedAfterPlateau(0), 300);
}

}  // namespace
}  // namespace carma::core

#include "core/values/interference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace carma::core {
namespace {

std::vector<double> SpeedsOf(SharingMethod sharing, const std::vector<Load>& loads) {
  std::vector<double> speeds(loads.size());
  Speeds({}, sharing, loads, speeds);
  return speeds;
}

TEST(LoadOf, UsesTheBestKnownValues) {
  EXPECT_EQ(LoadOf({}), (Load{0.6, 0.8, 0.6}));
  EXPECT_EQ(LoadOf({.sm_active = 0.4}), (Load{0.4, 0.8, 0.4}));
  EXPECT_EQ(LoadOf({.grain = 0.25}), LoadOf({})) << "the grain is useless without the activity";
  const MpsParameters guess = GuessByGrain(0.4, 0.25);
  EXPECT_EQ(LoadOf({.sm_active = 0.4, .grain = 0.25}),
            (Load{0.4, guess.sensitivity, guess.pressure}));
  EXPECT_EQ(LoadOf({.sm_active = 0.4, .mps = MpsParameters{1, 0.2}, .grain = 0.25}),
            (Load{0.4, 1, 0.2}));
}

TEST(Speeds, AloneIsFullSpeed) {
  for (const SharingMethod sharing : {SharingMethod::kMps, SharingMethod::kStreams})
    EXPECT_DOUBLE_EQ(SpeedsOf(sharing, {{0.9, 0.7, 0.8}})[0], 1.0);
  EXPECT_TRUE(SpeedsOf(SharingMethod::kMps, {}).empty());
}

TEST(Speeds, UnderMpsEqualValuesComputedByHand) {
  // Below saturation: 1 / (1 + s_i * p_j).
  const auto speeds = SpeedsOf(SharingMethod::kMps, {{0.4, 0.5, 0.3}, {0.3, 1.0, 0.2}});
  EXPECT_NEAR(speeds[0], 1 / 1.10, 1e-12);
  EXPECT_NEAR(speeds[1], 1 / 1.30, 1e-12);
}

TEST(Speeds, UnderMpsNeverDeliverMoreThanSaturation) {
  const std::vector<Load> loads{{0.9, 0, 0.5}, {0.8, 0, 0.5}, {0.4, 0, 0.5}};
  const auto speeds = SpeedsOf(SharingMethod::kMps, loads);
  EXPECT_NEAR(speeds[0], 1.05 / 2.1, 1e-12);
  double delivered = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) delivered += loads[i].sm_active * speeds[i];
  EXPECT_NEAR(delivered, 1.05, 1e-12);
}

TEST(Speeds, OversubscriptionLowersThroughputOnlyIfConfigured) {
  const std::vector<Load> loads{{0.9, 0, 0.5}, {0.8, 0, 0.5}, {0.4, 0, 0.5}};
  std::vector<double> speeds(loads.size());
  Speeds({.mps_oversubscription = 0.2}, SharingMethod::kMps, loads, speeds);
  double delivered = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) delivered += loads[i].sm_active * speeds[i];
  EXPECT_NEAR(delivered, 1.05 / (1 + 0.2 * (2.1 - 1.05)), 1e-12);
}

// From chapter 4 of the dissertation: when 2 / 3 / 7 ResNet-like tasks with a solo SM activity of
// 0.30 share a GPU, each epoch takes about 1.2 / 1.4 / 2.2 times as long. With seven tasks,
// saturation sets the limit.
TEST(Speeds, UnderMpsMeetTheAnchorsOfSmallTasks) {
  const Load load{0.3, 0.707, 0.3 * 0.959};
  const auto slowdown = [&](std::size_t n) {
    return 1 / SpeedsOf(SharingMethod::kMps, std::vector<Load>(n, load))[0];
  };
  EXPECT_NEAR(slowdown(2), 1.2, 0.05);
  EXPECT_NEAR(slowdown(3), 1.4, 0.05);
  EXPECT_NEAR(slowdown(7), 2.2, 0.05);
}

TEST(Speeds, UnderStreamsNeverDeliverMoreThanTheWholeGpu) {
  const std::vector<Load> many(40, Load{0.15, 0, 0});
  double delivered = 0;
  for (const double speed : SpeedsOf(SharingMethod::kStreams, many)) delivered += 0.15 * speed;
  EXPECT_NEAR(delivered, 1.0, 1e-12);
}

TEST(Speeds, UnderStreamsEqualValuesComputedByHand) {
  // Two saturated processes: g = 1, so the slowdown is 1 + 1.5.
  const auto full = SpeedsOf(SharingMethod::kStreams, {{1.0, 0, 0}, {1.0, 0, 0}});
  EXPECT_NEAR(full[0], 1 / 2.5, 1e-12);
  const double g = 1 - std::pow(0.5, 1.7);
  const auto half = SpeedsOf(SharingMethod::kStreams, {{0.5, 9, 9}, {0.5, 9, 9}, {0.0, 9, 9}});
  EXPECT_NEAR(half[0], 1 / (1 + 1.5 * g * g), 1e-12);
  EXPECT_NEAR(half[2], 1.0, 1e-12);
}

TEST(SmActivity, EqualsValuesComputedByHand) {
  const std::vector<Load> loads{{0.5, 0, 0}, {0.4, 0, 0}};
  const std::vector<double> speeds{0.8, 0.5};
  EXPECT_NEAR(SmActivity({}, SharingMethod::kMps, loads, speeds), 1 - std::pow(0.5 * 0.6, 0.95),
              1e-12);
  EXPECT_NEAR(SmActivity({}, SharingMethod::kStreams, loads, speeds), 0.6, 1e-12);
  const std::vector<Load> full{{1.0, 0, 0}, {1.0, 0, 0}};
  EXPECT_DOUBLE_EQ(SmActivity({}, SharingMethod::kStreams, full, std::vector<double>{1.0, 1.0}),
                   0.99);
  EXPECT_DOUBLE_EQ(SmActivity({}, SharingMethod::kMps, {}, {}), 0.0);
}

TEST(LoadOf, UsesKnownValuesOrDefaults) {
  EXPECT_EQ(LoadOf({}), (Load{kUsualActivity, kUsualSensitivity, kUsualActivity}));
  EXPECT_EQ(LoadOf({.sm_active = 0.3}), (Load{0.3, kUsualSensitivity, 0.3}));
  EXPECT_EQ(LoadOf({.sm_active = 0.3, .mps = MpsParameters{1.5, 0.2}}), (Load{0.3, 1.5, 0.2}));
}

TEST(Interference, TasksOfSeveralUsersTakeTurnsUnderMps) {
  const auto speeds_of = [](std::uint32_t second) {
    const std::vector<Load> loads{
        {.sm_active = 0.5, .sensitivity = 0.5, .pressure = 0.4, .user = 1},
        {.sm_active = 0.5, .sensitivity = 0.5, .pressure = 0.4, .user = second}};
    std::vector<double> speeds(2);
    Speeds({}, SharingMethod::kMps, loads, speeds);
    return speeds;
  };
  EXPECT_NEAR(speeds_of(1)[0], 1 / 1.2, 1e-9);
  const double busy = AsTurns({}, {.sm_active = 0.5}).pressure;
  EXPECT_NEAR(speeds_of(2)[0], 1 / (1 + 1.5 * busy * busy), 1e-9);
  EXPECT_LT(speeds_of(2)[0], speeds_of(1)[0]);
}

}  // namespace
}  // namespace carma::core

#include "core/values/throughput.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace carma::core {
namespace {

TEST(ThroughputEstimate, ATaskAloneDeliversItsOwnActivity) {
  const Neighbour task{.load = {0.7, 1.0, 0.5}};
  const ThroughputEstimate outlook = ThroughputOf({}, &task, 1.05);
  EXPECT_DOUBLE_EQ(outlook.delivered, 0.7);
  EXPECT_DOUBLE_EQ(outlook.newcomer, 1);
  EXPECT_TRUE(outlook.bearable);
  EXPECT_DOUBLE_EQ(ThroughputOf({}, nullptr, 1.05).delivered, 0);
}

TEST(ThroughputEstimate, EqualsValuesComputedByHand) {
  const std::vector<Neighbour> there{{.load = {0.4, 0.5, 0.3}, .max_slowdown = 1.1}};
  const Neighbour newcomer{.load = {0.3, 1.0, 0.2}};
  ThroughputEstimate outlook = ThroughputOf(there, &newcomer, 1.05);
  EXPECT_NEAR(outlook.delivered, 0.4 / 1.10 + 0.3 / 1.30, 1e-12);
  EXPECT_NEAR(outlook.newcomer, 1.30, 1e-12);
  EXPECT_NEAR(outlook.slowest, 1.30, 1e-12);
  EXPECT_TRUE(outlook.bearable);
  // If the GPU can deliver only 1 / 1.2 of that throughput, all tasks are slowed down and exceed
  // the limit of 1.1.
  outlook = ThroughputOf(there, &newcomer, outlook.delivered / 1.2);
  EXPECT_NEAR(outlook.newcomer, 1.30 * 1.2, 1e-12);
  EXPECT_FALSE(outlook.bearable);
}

// If the assumptions hold, the simulation behaves exactly as predicted, for every sharing method.
TEST(ThroughputEstimate, AgreesWithTheSpeeds) {
  base::Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    for (const SharingMethod sharing : {SharingMethod::kMps, SharingMethod::kStreams}) {
      std::vector<Load> loads(1 + rng.Next() % 6);
      std::vector<Neighbour> tasks;
      for (Load& load : loads) {
        load = {rng.Uniform(), rng.Uniform(), rng.Uniform()};
        tasks.push_back({.load = sharing == SharingMethod::kMps ? load : AsTurns({}, load)});
      }
      std::vector<double> speeds(loads.size());
      Speeds({}, sharing, loads, speeds);
      double delivered = 0;
      for (std::size_t i = 0; i < loads.size(); ++i) delivered += loads[i].sm_active * speeds[i];
      std::vector<double> slowdowns;
      SlowdownsOf(tasks, SaturationOf({}, sharing), slowdowns);
      for (std::size_t i = 0; i < speeds.size(); ++i)
        EXPECT_NEAR(slowdowns[i], 1 / speeds[i], 1e-9);
      const Neighbour last = tasks.back();
      tasks.pop_back();
      const ThroughputEstimate outlook = ThroughputOf(tasks, &last, SaturationOf({}, sharing));
      EXPECT_NEAR(outlook.delivered, delivered, 1e-9);
      EXPECT_NEAR(outlook.newcomer, 1 / speeds.back(), 1e-9);
    }
  }
}

TEST(Throughput, ASlowdownLimitIncludesTheDoubt) {
  const Neighbour there{.load = {.sm_active = 0.3, .sensitivity = 1, .pressure = 0.5}};
  Neighbour newcomer{.load = {.sm_active = 0.3, .sensitivity = 1, .pressure = 0.5},
                     .max_slowdown = 1.8};
  EXPECT_TRUE(ThroughputOf({&there, 1}, &newcomer, 1.05).bearable);
  newcomer.doubt = 2;
  const ThroughputEstimate doubted = ThroughputOf({&there, 1}, &newcomer, 1.05);
  EXPECT_FALSE(doubted.bearable) << "1.5 times as predicted, 2 times at worst";
  EXPECT_DOUBLE_EQ(doubted.newcomer, 1.5) << "the expected value does not change";
}

TEST(Throughput, NeighboursOfTheSameUserDeliverMore) {
  const Neighbour there{.load = {.sm_active = 0.5, .sensitivity = 0.5, .pressure = 0.4, .user = 1}};
  Neighbour newcomer = there;
  const ThroughputEstimate own = ThroughputOf({&there, 1}, &newcomer, 1.05);
  newcomer.load.user = 2;
  const ThroughputEstimate other = ThroughputOf({&there, 1}, &newcomer, 1.05);
  EXPECT_GT(own.delivered, other.delivered);
  EXPECT_LT(own.newcomer, other.newcomer);
  std::vector<double> slowdowns;
  SlowdownsOf(std::vector{there, newcomer}, 1.05, slowdowns);
  EXPECT_DOUBLE_EQ(slowdowns[1], other.newcomer);
}

}  // namespace
}  // namespace carma::core

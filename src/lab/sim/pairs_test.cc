#include "lab/sim/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace carma::sim {
namespace {

constexpr std::string_view kHeader = "config1,config2,speed1,speed2,u1,m1,u2,m2\n";

TEST(ParsePairs, ConvertsPercentToShares) {
  const auto pairs = ParsePairs(std::string(kHeader) + "a,b,0.9,1.02,50,25,80,10\n", "p.csv");
  ASSERT_TRUE(pairs) << pairs.error().message;
  ASSERT_EQ(pairs->streams.size(), 1u);
  EXPECT_DOUBLE_EQ(pairs->streams[0][0].speed, 0.9);
  EXPECT_DOUBLE_EQ(pairs->streams[0][0].memory, 0.25);
  EXPECT_DOUBLE_EQ(pairs->streams[0][1].utilization, 0.8);
}

TEST(ParsePairs, SeparatesPairsByMethod) {
  const auto pairs = ParsePairs(
      "method,speed1,speed2,u1,m1,u2,m2\nmps,0.9,1,50,25,80,10\nstreams,0.8,1,50,25,80,10\n"
      "mps,0.7,1,50,25,80,10\n",
      "p.csv");
  ASSERT_TRUE(pairs) << pairs.error().message;
  ASSERT_EQ(pairs->mps.size(), 2u);
  EXPECT_DOUBLE_EQ(pairs->mps[1][0].speed, 0.7);
  ASSERT_EQ(pairs->streams.size(), 1u);
  const auto odd = ParsePairs("method,speed1,speed2,u1,m1,u2,m2\nmig,0.9,1,50,25,80,10\n", "p.csv");
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message.find("p.csv:2"), std::string::npos) << odd.error().message;
}

TEST(ParsePairs, RefusesWithTheLine) {
  for (const auto& [rows, message] : {std::pair("", "p.csv: no pairs"),
                                      {"a,b,0,1,50,25,80,10\n", "p.csv:2"},
                                      {"a,b,1,1,150,25,80,10\n", "p.csv:2"},
                                      {"a,b,1,1,50,x,80,10\n", "p.csv:2"}}) {
    const auto pairs = ParsePairs(std::string(kHeader) + rows, "p.csv");
    ASSERT_FALSE(pairs) << rows;
    EXPECT_NE(pairs.error().message.find(message), std::string::npos) << pairs.error().message;
  }
}

// Makes pairs whose speeds follow the given formula exactly.
template <class Speed>
std::vector<MeasuredPair> MadeBy(const Speed& speed) {
  base::Rng rng(2);
  std::vector<MeasuredPair> pairs;
  for (int i = 0; i < 50; ++i) {
    MeasuredPair pair;
    for (PairedTask& task : pair) {
      task.utilization = rng.Uniform();
      task.memory = task.utilization * rng.Uniform();
    }
    pair[0].speed = speed(pair[0], pair[1]);
    pair[1].speed = speed(pair[1], pair[0]);
    pairs.push_back(pair);
  }
  return pairs;
}

TEST(ComparePairs, FindsTheFactorThatMadeThem) {
  const auto by_memory = ComparePairs(core::SharingMethod::kStreams,
                                      MadeBy([](const PairedTask& own, const PairedTask& other) {
                                        return 1 / (1 + 0.6 * own.utilization * other.memory);
                                      }));
  ASSERT_EQ(by_memory.size(), 5u);
  EXPECT_NEAR(*by_memory[3].factor, 0.6, 1e-3);
  EXPECT_NEAR(by_memory[3].r2, 1, 1e-6);
  EXPECT_TRUE(by_memory[3].fitted);
  EXPECT_LT(by_memory[1].r2, by_memory[2].r2);
  EXPECT_FALSE(by_memory[0].factor);

  const auto by_streams = ComparePairs(core::SharingMethod::kStreams,
                                       MadeBy([](const PairedTask& own, const PairedTask& other) {
                                         const auto busy = [](const PairedTask& task) {
                                           return 1 - std::pow(1 - task.utilization, 1.7);
                                         };
                                         return 1 / (1 + 1.5 * busy(own) * busy(other));
                                       }));
  EXPECT_NEAR(by_streams[1].r2, 1, 1e-12) << "the simulator's own model";
  EXPECT_NEAR(*by_streams[2].factor, 1.5, 1e-3);

  const auto by_utilization = ComparePairs(
      core::SharingMethod::kStreams, MadeBy([](const PairedTask& own, const PairedTask& other) {
        return std::min(1.0, 1.14 / (own.utilization + other.utilization));
      }));
  EXPECT_NEAR(by_utilization[4].mean_error, 0, 1e-12);
  EXPECT_FALSE(by_utilization[4].factor);

  const auto by_mps = ComparePairs(
      core::SharingMethod::kMps, MadeBy([](const PairedTask& own, const PairedTask& other) {
        const auto alone = [](const PairedTask& neighbour) {
          return 1 / (1 + 0.8 * neighbour.utilization);
        };
        const double delivered = own.utilization * alone(other) + other.utilization * alone(own);
        return alone(other) * std::min(1.0, 1.05 / delivered);
      }));
  EXPECT_NEAR(by_mps[1].r2, 1, 1e-12) << "the core's own guess, including saturation";
  EXPECT_NEAR(*by_mps[2].factor, 0.8, 1e-3);
}

}  // namespace
}  // namespace carma::sim

#include "lab/sim/matrix.h"

#include <gtest/gtest.h>

#include "lab/sim/bounds.h"

namespace carma::sim {
namespace {

// Three tasks on one server with two GPUs.
class MatrixTest : public ::testing::Test {
 protected:
  MatrixTest() {
    small_.id = "small";
    small_.weight_class = "light";
    small_.solo_s = 600;
    small_.sm_active = {0.3};
    small_.mps_sensitivity = 0.5;
    small_.mps_pressure = 0.2;
    small_.memory_mib = {4000};
    for (int i = 0; i < 3; ++i)
      arrivals_.push_back({base::Duration(i * 1000), &small_, std::nullopt});
    RunOptions exclusive;
    exclusive.policy.mapper = "exclusive";
    exclusive.estimates.source = "oracle";
    exclusive.noise = 0.05;
    RunOptions shared = exclusive;
    shared.policy.mapper = "magm";
    policies_ = {exclusive, shared};
  }

  trace::Workload small_;
  std::vector<Arrival> arrivals_;
  Cluster cluster_ = *ParseCluster("2xA100-40GB");
  std::vector<RunOptions> policies_;
};

TEST_F(MatrixTest, EveryPolicyRunsWithTheSameSeedsOnAnyNumberOfThreads) {
  const auto alone = SimulateMatrix(cluster_, arrivals_, policies_, 4, 1);
  std::atomic<std::size_t> told{0};
  const auto together =
      SimulateMatrix(cluster_, arrivals_, policies_, 4, 3, [&](std::size_t) { ++told; });
  ASSERT_TRUE(alone);
  ASSERT_EQ(alone->size(), 2u);
  ASSERT_EQ(alone->front().size(), 4u);
  EXPECT_EQ(*alone, *together);
  EXPECT_EQ(told, 8u);
  EXPECT_NE(alone->front()[0].trace_total_s, alone->front()[1].trace_total_s);
  // There are three tasks and two GPUs: without sharing, the third task waits until another ends.
  EXPECT_GT(alone->front()[0].trace_total_s, alone->back()[0].trace_total_s);
}

TEST_F(MatrixTest, RunsOfAPolicyThatCarriesItsHistoryFollowEachOther) {
  small_.memory_mib = {25'000};
  for (RunOptions& policy : policies_) {
    policy.policy.floor_mib = 0;
    policy.estimates.method = "auto";
  }
  const auto fresh = SimulateMatrix(cluster_, arrivals_, policies_, 3, 2);
  policies_.back().estimates.carries = true;
  std::atomic<std::size_t> told{0};
  const auto carried =
      SimulateMatrix(cluster_, arrivals_, policies_, 3, 3, [&](std::size_t) { ++told; });
  ASSERT_TRUE(fresh && carried);
  EXPECT_EQ(told, 6u);
  EXPECT_EQ(carried->front(), fresh->front());
  EXPECT_EQ(carried->back()[0], fresh->back()[0]) << "the first run starts without history";
  EXPECT_GE(fresh->back()[2].oom_crashes, 1);
  EXPECT_EQ(carried->back()[1].oom_crashes, 0);
  EXPECT_EQ(carried->back()[2].oom_crashes, 0);
  EXPECT_EQ(*SimulateMatrix(cluster_, arrivals_, policies_, 3, 1), *carried);
}

TEST_F(MatrixTest, RecordingDoesNotChangeTheRun) {
  const auto metrics = SimulateMatrix(cluster_, arrivals_, policies_, 1, 1);
  const auto recorded = SimulateRecorded(cluster_, arrivals_, policies_.back());
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->metrics, metrics->back().front());
  ASSERT_TRUE(recorded->run);
  EXPECT_EQ(recorded->run->tasks.size(), 3u);
  // The record must agree with the simulator's own sums.
  const report::Metrics from_record = report::Compute(*recorded->run);
  EXPECT_NEAR(*from_record.energy_mj, *recorded->metrics.energy_mj, 1e-6);
  EXPECT_NEAR(*from_record.sm_active, *recorded->metrics.sm_active, 1e-6);
  EXPECT_EQ(from_record.jct, recorded->metrics.jct);
}

TEST_F(MatrixTest, ReportsAndTheSimulatorAgree) {
  const auto metrics = SimulateMatrix(cluster_, arrivals_, policies_, 1, 1);
  const auto result = Simulate(cluster_, arrivals_, policies_.back());
  ASSERT_TRUE(result);
  const report::Metrics& of_report = metrics->back().front();
  const Totals& totals = result->totals;
  EXPECT_NEAR(of_report.trace_total_s, totals.makespan_s, 1e-9);
  EXPECT_EQ(of_report.attempts, totals.attempts);
}

TEST_F(MatrixTest, EachPolicyHasTheBoundsOfItsSharingMethod) {
  policies_.push_back(policies_.back());
  policies_.back().collocation = core::SharingMethod::kStreams;
  for (RunOptions& policy : policies_) policy.slowdown_limit = 1.15;
  const auto metrics = SimulateMatrix(cluster_, arrivals_, policies_, 1, 1);
  ASSERT_TRUE(metrics);
  for (std::size_t i = 0; i < policies_.size(); ++i)
    EXPECT_EQ((*metrics)[i][0].bounds, BoundsOf(cluster_, arrivals_, policies_[i])) << i;
  EXPECT_NE((*metrics)[1][0].bounds, (*metrics)[2][0].bounds);
}

TEST_F(MatrixTest, ChecksEveryPolicyBeforeTheFirstRun) {
  arrivals_.back().line = 4;
  arrivals_.back().qos = "gold";
  policies_.front().policy.classes = {{.name = "gold"}};
  std::size_t finished = 0;
  const auto failed = SimulateMatrix(cluster_, arrivals_, policies_, 1, 1,
                                     [&](std::size_t count) { finished = count; });
  ASSERT_FALSE(failed);
  EXPECT_EQ(
      failed.error().message,
      "line 4 (small): qos: expected one of normal, interactive, background (fair.classes), got "
      "gold; pass the server's configuration file (--config) or delete this column");
  EXPECT_EQ(finished, 0u);
}

TEST_F(MatrixTest, ReturnsTheErrorOfAFailedRun) {
  small_.gpus = 3;
  small_.sm_active = {0.3, 0.3, 0.3};
  small_.memory_mib = {1, 1, 1};
  const auto failed = SimulateMatrix(cluster_, arrivals_, policies_, 4, 2);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace carma::sim

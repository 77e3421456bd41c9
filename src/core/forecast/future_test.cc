#include "core/forecast/future.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace carma::core {
namespace {

PolicyConfig Rules() {
  PolicyConfig config;
  config.mapper = "by-work";
  config.margin_mib = 0;
  config.sm_cap.reset();
  return config;
}
GpuView Gpu(std::uint32_t index) {
  return {.index = GpuIndex{index}, .total_mib = 40'000, .free_mib = 40'000};
}
// A task that is not slowed down by neighbours.
FutureTask TaskWith(std::int64_t need_mib, double alone_s) {
  return {.need = {.memory_mib = need_mib, .load = {.load = {0.5, 0, 0}}}, .alone_s = alone_s};
}

class FutureTest : public ::testing::Test {
 protected:
  double Cost(const std::optional<FutureStart>& first) const {
    return Future(config_, *mapper_, views_, running_, line_).CostOf(first);
  }
  PolicyConfig config_ = Rules();
  std::unique_ptr<Mapper> mapper_ = FindMapper("by-work")->make(config_);
  std::vector<GpuView> views_{Gpu(0)};
  std::vector<FutureRun> running_;
  std::vector<FutureTask> line_;
};

TEST_F(FutureTest, TasksThatDoNotFitTogetherRunOneAfterTheOther) {
  line_ = {TaskWith(30'000, 100), TaskWith(30'000, 50)};
  // In either order, the last task ends after 150 s. The other one ends after 100 s or 50 s.
  EXPECT_NEAR(Cost(FutureStart{0, {0}}), 150 + 0.5 * 125, 1e-6);
  EXPECT_NEAR(Cost(FutureStart{1, {0}}), 150 + 0.5 * 100, 1e-6);
  EXPECT_TRUE(std::isinf(Cost({})));  // nothing is running, so nothing ends
}

TEST_F(FutureTest, RunningTasksContinueAndMakeRoom) {
  views_ = {Gpu(0), Gpu(1)};
  views_[0].free_mib = 10'000;
  views_[0].tasks = 1;
  running_ = {{.load = {.load = {0.5, 0, 0}}, .left_s = 20, .gpus = {0}, .promised_mib = {30'000}}};
  line_ = {TaskWith(30'000, 100)};
  EXPECT_NEAR(Cost(FutureStart{0, {1}}), 100 + 0.5 * (20 + 100) / 2, 1e-6);
  EXPECT_NEAR(Cost({}), 120 + 0.5 * (20 + 120) / 2, 1e-6);
}

TEST_F(FutureTest, NeighboursSlowEachOtherDown) {
  line_ = {TaskWith(10'000, 100), TaskWith(10'000, 100)};
  for (FutureTask& each : line_) each.need.load.load = {0.4, 1, 0.5};
  EXPECT_NEAR(Cost(FutureStart{0, {0}}), 150 * 1.5, 1e-6);
}

TEST_F(FutureTest, ATaskOfTwoGpusRunsAtTheSpeedOfTheSlowerGpu) {
  views_ = {Gpu(0), Gpu(1)};
  views_[1].free_mib = 30'000;
  views_[1].tasks = 1;
  running_ = {
      {.load = {.load = {0.4, 0, 0.5}}, .left_s = 1000, .gpus = {1}, .promised_mib = {10'000}}};
  line_ = {TaskWith(10'000, 100)};
  line_[0].need.gpus = 2;
  line_[0].need.load.load = {0.4, 1, 0};
  EXPECT_NEAR(Cost(FutureStart{0, {0, 1}}), 1000 + 0.5 * (1000 + 150) / 2, 1e-6);
}

TEST_F(FutureTest, ATaskOfTwoGpusMayNeedLessMemoryOnTheSecond) {
  views_ = {Gpu(0), Gpu(1)};
  views_[0].free_mib = 10'000;
  views_[0].tasks = 1;
  running_ = {{.load = {.load = {0.5, 0, 0}}, .left_s = 20, .gpus = {0}, .promised_mib = {30'000}}};
  line_ = {TaskWith(30'000, 100), TaskWith(5'000, 1)};
  line_[0].need.gpus = 2;
  EXPECT_NEAR(Cost(FutureStart{1, {1}}), 120 + 0.5 * (20 + 120 + 1) / 3, 1e-6);
  line_[0].need.others_mib = 10'000;
  EXPECT_NEAR(Cost(FutureStart{1, {1}}), 100 + 0.5 * (20 + 100 + 1) / 3, 1e-6);
}

TEST_F(FutureTest, ATaskTakesLongerOnASlowerGpu) {
  views_[0].pace = 0.5;
  line_ = {TaskWith(30'000, 100)};
  EXPECT_NEAR(Cost(FutureStart{0, {0}}), 200 + 0.5 * 200, 1e-6);
}

TEST_F(FutureTest, ATaskThatNeverFitsCostsInfinity) {
  line_ = {TaskWith(10'000, 100), TaskWith(50'000, 100)};
  EXPECT_TRUE(std::isinf(Cost(FutureStart{0, {0}})));
}

}  // namespace
}  // namespace carma::core

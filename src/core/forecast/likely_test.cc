#include "core/forecast/likely.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace carma::core {
namespace {

constexpr std::int64_t kMib = 40'000;

// Places tasks on empty GPUs by the usual rules. When two of these tasks share a GPU, each takes
// 1.5 times as long.
class LikelyTest : public ::testing::Test {
 protected:
  LikelyTest() {
    config_.margin_mib = 0;
    config_.sm_cap.reset();
  }
  void Gpus(int count) {
    for (int i = 0; i < count; ++i) {
      room_.Add({.index = GpuIndex{static_cast<std::uint32_t>(i)},
                 .total_mib = kMib,
                 .free_mib = kMib,
                 .healthy = true},
                {});
    }
  }
  Need Needs(std::int64_t mib, int gpus = 1) {
    Need need{.memory_mib = mib, .gpus = gpus, .task = TaskId{++last_}};
    need.load.load = {.sm_active = 0.4, .sensitivity = 0.5, .pressure = 1};
    return need;
  }
  void Runs(std::int64_t mib, std::optional<double> left_s, std::optional<double> most_s = {}) {
    const Need need = Needs(mib);
    ASSERT_TRUE(room_.Take(need));
    running_.push_back({need.task, left_s, most_s});
  }
  void Waits(std::int64_t mib, std::optional<double> takes_s, int gpus = 1) {
    const Need need = Needs(mib, gpus);
    line_.tasks.push_back({need, {need.task, takes_s, {}}});
  }
  std::vector<int> Starts(std::size_t most = 100) {
    std::vector<int> starts;
    for (const auto& each : LikelyStarts(config_, room_, running_, line_, most))
      starts.push_back(each ? static_cast<int>(*each + 0.5) : -1);
    return starts;
  }

  PolicyConfig config_;
  GpuLinks links_;
  PreemptionPlan room_{config_, links_};
  std::vector<LikelyRun> running_;
  LikelyLine line_;
  std::uint64_t last_ = 0;
};
using Seconds = std::vector<int>;

TEST_F(LikelyTest, TasksShareAndSlowEachOtherDown) {
  Gpus(1);
  Runs(30'000, 100);
  Waits(20'000, 200);
  Waits(20'000, 100);
  Waits(20'000, 10);
  // Both tasks take 1.5 times as long. When the second ends at 250 s, the first has 100 s of work
  // left.
  EXPECT_EQ(Starts(), (Seconds{100, 100, 250}));
  EXPECT_EQ(Starts(1), (Seconds{100, 100, -1}));
}

TEST_F(LikelyTest, NoTaskPassesTheHeadIfOnlyTheHeadIsConsidered) {
  Gpus(1);
  Runs(30'000, 100);
  Waits(20'000, 200);
  Waits(5'000, 100);
  EXPECT_EQ(Starts(), (Seconds{100, 100}));
  config_.backfill = 2;
  EXPECT_EQ(Starts(), (Seconds{150, 0})) << "and the running task is slowed down";
}

TEST_F(LikelyTest, UnknownEndsGiveNoStarts) {
  Gpus(2);
  Runs(40'000, {});
  Runs(40'000, 100);
  Waits(40'000, {});
  Waits(40'000, 10);
  EXPECT_EQ(Starts(), (Seconds{100, -1}));
  running_[0].most_s = 300;
  EXPECT_EQ(Starts(), (Seconds{100, 300})) << "a time limit";
}

TEST_F(LikelyTest, KeepsGpusForATaskPassedForLong) {
  Gpus(2);
  config_.backfill = 10;
  Runs(40'000, 1'000);
  Runs(40'000, 1'100);
  Waits(40'000, 10, 2);
  for (int i = 0; i < 4; ++i) Waits(40'000, 3'000);
  // By 4000 s, the task has been at the head of the queue for more than an hour.
  EXPECT_EQ(Starts(), (Seconds{4'100, 1'000, 1'100, 4'110, 4'110}));
  line_.first_for_s = 3'000;
  line_.passed = true;
  EXPECT_EQ(Starts(), (Seconds{1'100, 1'110, 1'110, 4'110, 4'110}));
}

}  // namespace
}  // namespace carma::core

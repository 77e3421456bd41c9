#include "core/forecast/preemption_plan.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

constexpr std::int64_t kGpuMib = 40'000;

// Plans on two GPUs.
class PreemptionPlanTest : public ::testing::Test {
 protected:
  PreemptionPlanTest() {
    config_.margin_mib = 0;
    config_.sm_cap.reset();
  }
  void Add(std::uint32_t gpu, std::vector<PlannedTask> tasks,
           std::optional<double> sm_active = {}) {
    std::int64_t promised_mib = 0;
    residents_[gpu].clear();
    for (const PlannedTask& each : tasks) {
      promised_mib += each.promised_mib;
      residents_[gpu].push_back(each.load);
    }
    room_.Add({.index = GpuIndex{gpu},
               .total_mib = kGpuMib,
               .free_mib = kGpuMib - promised_mib,
               .sm_active = sm_active,
               .residents = residents_[gpu],
               .tasks = static_cast<int>(tasks.size()),
               .settled = false,
               .healthy = true},
              std::move(tasks));
  }
  static Need Needs(std::int64_t mib, int gpus = 1) {
    return {.memory_mib = mib, .gpus = gpus, .task = TaskId{99}};
  }
  std::optional<std::vector<TaskId>> Who(const Need& need, std::vector<TaskId> candidates) const {
    return room_.WhoMustLeave(need, candidates);
  }

  PolicyConfig config_;
  std::vector<Neighbour> residents_[2];
  GpuLinks links_;
  PreemptionPlan room_{config_, links_};
};
using Tasks = std::vector<TaskId>;

TEST_F(PreemptionPlanTest, NoTaskLeavesIfTheNewOneFits) {
  Add(0, {{.task = TaskId{1}, .promised_mib = 30'000}});
  EXPECT_EQ(Who(Needs(10'000), {TaskId{1}}), Tasks{});
}

TEST_F(PreemptionPlanTest, OnlyTheNecessaryTasksLeave) {
  Add(0,
      {{.task = TaskId{1}, .promised_mib = 10'000}, {.task = TaskId{2}, .promised_mib = 30'000}});
  Add(1, {{.task = TaskId{3}, .promised_mib = 35'000}});
  EXPECT_EQ(Who(Needs(30'000), {TaskId{1}, TaskId{2}, TaskId{3}}), Tasks{TaskId{2}});
  EXPECT_EQ(Who(Needs(30'000), {TaskId{1}, TaskId{3}, TaskId{2}}), Tasks{TaskId{3}});
  EXPECT_EQ(Who(Needs(10'000), {TaskId{3}, TaskId{1}}), Tasks{TaskId{3}});
  EXPECT_EQ(Who(Needs(40'000), {TaskId{1}, TaskId{2}}), (Tasks{TaskId{1}, TaskId{2}}));
  EXPECT_EQ(Who(Needs(40'000), {TaskId{1}}), std::nullopt);
}

TEST_F(PreemptionPlanTest, ATaskKeepsItsActivityWhenItsNeighbourLeaves) {
  config_.sm_cap = 0.8;
  const auto task = [](std::uint64_t id, double sm_active) {
    PlannedTask planned{.task = TaskId{id}, .promised_mib = 1'000};
    planned.load.load.sm_active = sm_active;
    return planned;
  };
  Add(0, {task(1, 0.85), task(2, 0.6)}, 0.93);
  EXPECT_EQ(Who(Needs(1'000), {TaskId{2}}), std::nullopt) << "task 1 alone is above the cap";
  EXPECT_EQ(Who(Needs(1'000), {TaskId{2}, TaskId{1}}), Tasks{TaskId{1}});
}

TEST_F(PreemptionPlanTest, FreesSeveralGpus) {
  Add(0, {{.task = TaskId{1}, .promised_mib = 30'000}});
  Add(1, {{.task = TaskId{2}, .promised_mib = 30'000}, {.task = TaskId{3}, .promised_mib = 1'000}});
  EXPECT_EQ(Who(Needs(20'000, 2), {TaskId{3}, TaskId{2}, TaskId{1}}),
            (Tasks{TaskId{2}, TaskId{1}}));
}

TEST_F(PreemptionPlanTest, PlacedTasksTakeUpRoom) {
  Add(0, {{.task = TaskId{1}, .promised_mib = 30'000}});
  EXPECT_FALSE(room_.Take(Needs(20'000)));
  room_.Leave(TaskId{1});
  EXPECT_TRUE(room_.Take(Needs(20'000)));
  EXPECT_FALSE(room_.Take(Needs(30'000)));
  EXPECT_TRUE(room_.Take(Needs(20'000)));
}

TEST_F(PreemptionPlanTest, AnExclusiveTaskKeepsItsGpuUntilItLeaves) {
  Add(0, {{.task = TaskId{1}, .promised_mib = 100, .exclusive = true}});
  EXPECT_FALSE(room_.Take(Needs(100)));
  EXPECT_EQ(Who(Needs(100), {TaskId{1}}), Tasks{TaskId{1}});
}

}  // namespace
}  // namespace carma::core

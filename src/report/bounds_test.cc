#include "report/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace carma::report {
namespace {

BoundTask Released(std::int64_t release_s, double run_s, int gpus = 1, double sm_active = 0.5,
                   double memory_mib = 10'000) {
  return {.release = base::Duration(release_s * 1000),
          .run_s = run_s,
          .load_s = 14,
          .gpus = gpus,
          .sm_active = sm_active,
          .memory_mib = memory_mib};
}

double BoundNamed(const std::vector<Bound>& bounds, const std::string& name) {
  const auto found =
      std::ranges::find_if(bounds, [&](const Bound& each) { return each.name == name; });
  return found == bounds.end() ? -1 : found->makespan_s;
}

TEST(Bounds, MatchHandComputation) {
  // Two GPUs of 40 000 MiB. The tasks have 1000 exclusive GPU-seconds of work, and 900 of these are
  // released at 300 s.
  const std::vector<BoundTask> tasks{Released(0, 100), Released(300, 300, 2, 1.2, 24'000),
                                     Released(300, 300)};
  const std::vector<Bound> bounds = MakespanBounds(tasks, {.gpus = 2, .usable_mib = 40'000});
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "longest task"), 614);
  // The tasks that arrive at 300 s do no work before 314 s.
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "exclusive area"), 314 + (600 + 300) / 2.0);
  // The two tasks released at 300 s run side by side at full speed, so the bound is the same as for
  // "longest task".
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "SM activity area"), 614);
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "memory area"), 614);
}

TEST(Bounds, AreaBoundAddsTheRemainingWork) {
  // On one GPU, the first task has done at most 80 of its 160 GPU-seconds by the time the other two
  // have loaded. From then on, the three together need more than the GPU can deliver.
  const std::vector<BoundTask> tasks{Released(0, 200, 1, 0.8), Released(100, 400, 1, 0.8),
                                     Released(100, 400, 1, 0.8)};
  const std::vector<Bound> bounds = MakespanBounds(tasks, {.gpus = 1, .usable_mib = 0});
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "SM activity area"), 114 + 720);
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "SM activity area at 1.05"), 114 + 720 / 1.05);
}

TEST(Bounds, WithASlowdownLimitAreNotUniversal) {
  std::vector<BoundTask> tasks{Released(0, 1'000)};
  tasks[0].limited_share = 0.9;
  const BoundPool pool{.gpus = 1, .usable_mib = 0, .slowdown_limit = 1.5};
  tasks.push_back(tasks[0]);
  const std::vector<Bound> bounds = MakespanBounds(tasks, pool);
  EXPECT_DOUBLE_EQ(BoundNamed(bounds, "SM activity area, slowdown at most 1.5"), 14 + 1'800);
  EXPECT_LT(TightestBound(bounds), 1'800);
}

TEST(Bounds, UseTheWorstRelease) {
  const std::vector<BoundTask> tasks{Released(0, 10), Released(1'000, 10)};
  EXPECT_DOUBLE_EQ(
      BoundNamed(MakespanBounds(tasks, {.gpus = 1, .usable_mib = 0}), "exclusive area"), 1'024);
}

TEST(Bounds, AreEmptyWithoutTasksOrGpus) {
  const std::vector<BoundTask> tasks{Released(0, 10)};
  EXPECT_TRUE(MakespanBounds({}, {.gpus = 4, .usable_mib = 1}).empty());
  EXPECT_TRUE(MakespanBounds(tasks, {.gpus = 0, .usable_mib = 1}).empty());
  EXPECT_EQ(MakespanBounds(tasks, {.gpus = 1, .usable_mib = 0}).size(), 4u);
}

TEST(Bounds, DoNotDependOnTheOrderOfTasks) {
  std::vector<BoundTask> tasks{Released(0, 100), Released(50, 300, 2), Released(20, 80)};
  const std::vector<Bound> forth = MakespanBounds(tasks, {.gpus = 2, .usable_mib = 1'000});
  std::ranges::reverse(tasks);
  EXPECT_EQ(MakespanBounds(tasks, {.gpus = 2, .usable_mib = 1'000}), forth);
}

}  // namespace
}  // namespace carma::report

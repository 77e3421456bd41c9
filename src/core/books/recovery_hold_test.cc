#include "core/books/recovery_hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<GpuView> Views() {
  std::vector<GpuView> views;
  for (std::uint32_t i = 0; i < 4; ++i) {
    views.push_back({.index = GpuIndex{i},
                     .total_mib = 40'000,
                     .free_mib = 1'000 * static_cast<std::int64_t>(i),
                     .tasks = 1});
  }
  return views;
}

TEST(RecoveryHold, KeepsGpusWithMostFreeMemoryAndThoseOfExclusiveTasksLast) {
  std::vector<GpuView> views = Views();
  views[3].exclusive_task = true;
  RecoveryHold recovery_hold;
  EXPECT_FALSE(recovery_hold.Keeps(GpuIndex{0}));
  recovery_hold.Keep({}, {}, {.gpus = 2, .task = TaskId{7}}, views);
  EXPECT_EQ(recovery_hold.task(), TaskId{7});
  EXPECT_THAT(recovery_hold.gpus(), ElementsAre(GpuIndex{2}, GpuIndex{1}));
  EXPECT_TRUE(recovery_hold.Keeps(GpuIndex{1}));
  EXPECT_FALSE(recovery_hold.Keeps(GpuIndex{3}));
  recovery_hold.Drop();
  EXPECT_EQ(recovery_hold.task(), std::nullopt);
  EXPECT_THAT(recovery_hold.gpus(), IsEmpty());
}

TEST(RecoveryHold, KeepsGpusWhereForeignProcessesAreInTheWayLast) {
  std::vector<GpuView> views = Views();
  views[3].foreign_processes = views[2].foreign_processes = 1;
  views[2].foreign_mib = 35'000;
  RecoveryHold recovery_hold;
  recovery_hold.Keep({}, {}, {.memory_mib = 1'000, .exclusive = true, .task = TaskId{7}}, views);
  EXPECT_THAT(recovery_hold.gpus(), ElementsAre(GpuIndex{1}));
  recovery_hold.Keep({}, {}, {.memory_mib = 10'000, .gpus = 3, .task = TaskId{7}}, views);
  EXPECT_THAT(recovery_hold.gpus(), ElementsAre(GpuIndex{3}, GpuIndex{1}, GpuIndex{0}));
  recovery_hold.Keep({}, {}, {.exclusive = true, .gpus = 4, .task = TaskId{7}}, views);
  EXPECT_THAT(recovery_hold.gpus(),
              ElementsAre(GpuIndex{1}, GpuIndex{0}, GpuIndex{3}, GpuIndex{2}));
}

TEST(RecoveryHold, IgnoresClosedTooSmallAndDividedGpus) {
  std::vector<GpuView> views = Views();
  views[0].healthy = false;
  views[1].drained = true;
  views[2].total_mib = 9'999;
  views[3].mig = true;
  RecoveryHold recovery_hold;
  recovery_hold.Keep({}, {}, {.gpus = 2, .task = TaskId{7}}, views);
  EXPECT_EQ(recovery_hold.task(), std::nullopt);
  recovery_hold.Keep({}, {}, {.retry_free_mib = 10'000, .task = TaskId{7}}, views);
  EXPECT_THAT(recovery_hold.gpus(), ElementsAre(GpuIndex{3}));
}

}  // namespace
}  // namespace carma::core

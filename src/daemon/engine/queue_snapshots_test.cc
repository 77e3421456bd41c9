#include "daemon/engine/queue_snapshots.h"

#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

using core::TaskId;

TEST(ToldLine, FindsTasksInAnyOrder) {
  const std::vector<TaskId> by_number{TaskId{2}, TaskId{5}, TaskId{9}};
  const std::vector<TaskId> by_priority{TaskId{9}, TaskId{2}, TaskId{5}};
  for (const auto& tasks : {by_number, by_priority}) {
    const ToldLine line(tasks, base::Time{});
    for (std::size_t i = 0; i < tasks.size(); ++i) EXPECT_EQ(line.PlaceOf(tasks[i]), i);
    for (const TaskId other : {TaskId{1}, TaskId{4}, TaskId{10}})
      EXPECT_EQ(line.PlaceOf(other), std::nullopt);
  }
}

TEST(QueueSnapshots, TheNextPageUsesTheSnapshotOfThePreviousPage) {
  QueueSnapshots snapshots;
  const auto first = std::make_shared<ToldLine>(
      std::vector<TaskId>{TaskId{1}, TaskId{2}, TaskId{3}}, base::Time{});
  const auto second = std::make_shared<ToldLine>(
      std::vector<TaskId>{TaskId{3}, TaskId{1}, TaskId{2}}, base::Time{});
  snapshots.Keep(first, TaskId{1});
  snapshots.Keep(second, TaskId{3});
  EXPECT_EQ(snapshots.Behind(TaskId{1}, base::Time{}), first);
  EXPECT_EQ(snapshots.Behind(TaskId{2}, base::Time{}), second)
      << "the latest snapshot that contains it";
  EXPECT_EQ(snapshots.Behind(TaskId{7}, base::Time{}), nullptr);
  EXPECT_EQ(snapshots.Behind(TaskId{1}, base::Time{} + std::chrono::minutes(3)), nullptr);
}

}  // namespace
}  // namespace carma::daemon

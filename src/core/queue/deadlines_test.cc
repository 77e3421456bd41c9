#include "core/queue/deadlines.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::core {
namespace {

TaskRecord Running(std::uint64_t id, std::int64_t started_ms, std::int64_t limit_ms) {
  TaskRecord task;
  task.id = TaskId{id};
  task.request.Edit().time_limit = Duration{limit_ms};
  task.attempt.Edit().started = base::FromMs(started_ms);
  return task;
}

TEST(Deadlines, TheEarliestDeadlineComesFirst) {
  Deadlines deadlines;
  EXPECT_EQ(deadlines.Next(), std::nullopt);
  deadlines.Watch(Running(1, 100, 50));
  deadlines.Watch(Running(2, 0, 120));
  EXPECT_EQ(deadlines.Next(), base::FromMs(120));
  EXPECT_EQ(deadlines.Expired(base::FromMs(119)), std::nullopt);
  EXPECT_EQ(deadlines.Expired(base::FromMs(200)), TaskId{2});
  deadlines.Forget(Running(2, 0, 120));
  deadlines.Forget(Running(2, 0, 120));
  EXPECT_EQ(deadlines.Expired(base::FromMs(200)), TaskId{1});
  EXPECT_TRUE(deadlines.Watches(Running(1, 100, 50)));
  EXPECT_FALSE(deadlines.Watches(Running(2, 0, 120)));
}

TEST(Deadlines, IgnoresTasksWithoutLimitOrStart) {
  Deadlines deadlines;
  TaskRecord endless = Running(1, 100, 50);
  endless.request.Edit().time_limit.reset();
  TaskRecord launching = Running(2, 100, 50);
  launching.attempt.Edit().started.reset();
  deadlines.Watch(endless);
  deadlines.Watch(launching);
  EXPECT_EQ(deadlines.size(), 0U);
}

}  // namespace
}  // namespace carma::core

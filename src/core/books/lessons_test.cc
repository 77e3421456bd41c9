#include "core/books/lessons.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::core {
namespace {

TaskRecord TaskOfKind(std::uint64_t id, std::uint64_t kind, std::uint32_t uid = 1000) {
  TaskRecord task;
  task.id = TaskId{id};
  task.kind = KindId{kind};
  task.request.Edit().uid = uid;
  return task;
}

TEST(LessonsTest, ALessonAppliesToAllTasksOfTheKind) {
  Lessons lessons;
  const TaskRecord first = TaskOfKind(1, 7), second = TaskOfKind(2, 7), other = TaskOfKind(3, 8);
  for (const TaskRecord& task : {first, second, other}) lessons.Join(task);
  EXPECT_EQ(lessons.Of(second), nullptr);
  lessons.Enough(first, 10'600);
  ASSERT_NE(lessons.Of(second), nullptr);
  EXPECT_EQ(*lessons.Of(second), (Lesson{10'600, 0}));
  EXPECT_EQ(lessons.Of(other), nullptr);
}

TEST(LessonsTest, TheHighestMemoryOfAllRunsCounts) {
  Lessons lessons;
  const TaskRecord task = TaskOfKind(1, 7);
  lessons.Join(task);
  lessons.Enough(task, 10'600);
  lessons.Enough(task, 9'000);
  lessons.AtLeast(task, 15'000);
  lessons.AtLeast(task, 12'000);
  EXPECT_EQ(lessons.Of(task)->enough_mib, 10'600);
  EXPECT_EQ(lessons.Of(task)->at_least_mib, 15'000);
}

TEST(LessonsTest, SuccessesLowerTheDemandAfterOutOfMemory) {
  Lessons lessons;
  const TaskRecord task = TaskOfKind(1, 7);
  lessons.Join(task);
  lessons.Succeeded(task, 9'000);
  EXPECT_EQ(lessons.Of(task), nullptr);
  lessons.AtLeast(task, 15'000);
  lessons.Succeeded(task, 9'000);
  EXPECT_EQ(lessons.Of(task)->at_least_mib, 12'000);
  lessons.Succeeded(task, 13'000);
  EXPECT_EQ(lessons.Of(task)->at_least_mib, 12'000) << "it never rises";
  for (int i = 0; i < 20; ++i) lessons.Succeeded(task, 9'000);
  EXPECT_EQ(lessons.Of(task)->at_least_mib, 9'000);
}

TEST(LessonsTest, TheHighestOthersShareCountsUntilOutOfMemory) {
  Lessons lessons;
  const TaskRecord task = TaskOfKind(1, 7);
  lessons.Join(task);
  lessons.OthersShare(task, 0.6);
  lessons.OthersShare(task, 0.5);
  EXPECT_EQ(lessons.Of(task)->others_share, 0.6);
  lessons.AtLeast(task, 15'000);
  EXPECT_EQ(lessons.Of(task)->others_share, 1);
}

TEST(LessonsTest, TasksOfAnotherUserAreOfAnotherKind) {
  Lessons lessons;
  const TaskRecord mine = TaskOfKind(1, 7), theirs = TaskOfKind(2, 7, 1001);
  lessons.Join(mine);
  lessons.Join(theirs);
  lessons.AtLeast(mine, 15'000);
  EXPECT_EQ(lessons.Of(theirs), nullptr);
}

TEST(LessonsTest, LessonsAreDroppedWithTheLastTask) {
  Lessons lessons;
  const TaskRecord first = TaskOfKind(1, 7), second = TaskOfKind(2, 7);
  lessons.Join(first);
  lessons.Join(second);
  lessons.Enough(first, 10'600);
  lessons.Leave(first);
  EXPECT_NE(lessons.Of(second), nullptr);
  lessons.Leave(second);
  lessons.Join(second);
  EXPECT_EQ(lessons.Of(second), nullptr);
  EXPECT_EQ(lessons.tasks(), 1u);
}

TEST(LessonsTest, TheLastActivityCounts) {
  Lessons lessons;
  const TaskRecord first = TaskOfKind(1, 7), second = TaskOfKind(2, 7);
  lessons.Join(first);
  lessons.Join(second);
  lessons.Activity(first, 0.4);
  lessons.Activity(first, 0.5);
  ASSERT_NE(lessons.Of(second), nullptr);
  EXPECT_EQ(lessons.Of(second)->sm_active, 0.5);
  EXPECT_EQ(lessons.Of(second)->enough_mib, 0);
}

TEST(LessonsTest, TasksOfUnknownKindGiveNoLessons) {
  Lessons lessons;
  const TaskRecord first = TaskOfKind(1, 0), second = TaskOfKind(2, 0);
  lessons.Join(first);
  lessons.Join(second);
  lessons.Enough(first, 10'600);
  EXPECT_EQ(lessons.Of(second), nullptr);
  lessons.Leave(first);
  EXPECT_EQ(lessons.tasks(), 0u);
}

}  // namespace
}  // namespace carma::core

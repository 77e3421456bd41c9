#include "core/books/launch_trouble.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::core {
namespace {

Time At(int seconds) {
  return base::FromMs(seconds * 1'000);
}

TaskRecord Task(std::uint64_t id, std::uint32_t uid = 1) {
  TaskRecord task;
  task.id = TaskId{id};
  task.request.Edit().uid = uid;
  return task;
}

TEST(LaunchTrouble, RepeatedFailuresOfOneTaskAreNotTheMachinesFault) {
  LaunchTrouble trouble;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(trouble.Failed(At(i), Task(1), "fork").empty());
  EXPECT_TRUE(trouble.Failed(At(20), Task(2), "fork").empty());
  EXPECT_FALSE(trouble.on());
  EXPECT_TRUE(trouble.MayTry(At(20)));
  EXPECT_FALSE(trouble.NextTrial());
  EXPECT_EQ(trouble.Text(), "");
}

TEST(LaunchTrouble, OneCertainMachineFailureIsEnough) {
  LaunchTrouble trouble;
  trouble.Failed(At(1), Task(1), "fork");
  EXPECT_EQ(trouble.Failed(At(2), Task(2), "no descriptors", /*certain=*/true),
            (std::map<TaskId, int>{{TaskId{1}, 1}, {TaskId{2}, 0}}));
  EXPECT_TRUE(trouble.on());
}

TEST(LaunchTrouble, FailuresOfDifferentTasksAreTheMachinesFaultAndDoNotCount) {
  LaunchTrouble trouble;
  trouble.Failed(At(1), Task(1), "fork");
  trouble.Failed(At(2), Task(2), "fork");
  trouble.Failed(At(3), Task(1), "fork");
  EXPECT_EQ(trouble.Failed(At(4), Task(3), "no descriptors"),
            (std::map<TaskId, int>{{TaskId{1}, 2}, {TaskId{2}, 1}, {TaskId{3}, 0}}));
  EXPECT_TRUE(trouble.on());
  EXPECT_EQ(trouble.Text(), "Task starts are failing (no descriptors); one is tried every 0:10.");
  EXPECT_EQ(trouble.NextTrial(), At(14));
  EXPECT_FALSE(trouble.MayTry(At(13)));
  EXPECT_TRUE(trouble.MayTry(At(14)));
  trouble.Tried(At(14));
  EXPECT_FALSE(trouble.MayTry(At(15)));
  EXPECT_EQ(trouble.Failed(At(15), Task(4), "fork"), (std::map<TaskId, int>{{TaskId{4}, 0}}));
  EXPECT_EQ(trouble.NextTrial(), At(24));
}

TEST(LaunchTrouble, OnlyALaterStartEndsTheTrouble) {
  LaunchTrouble trouble;
  for (std::uint64_t id = 1; id <= 3; ++id) trouble.Failed(At(5), Task(id, 7), "fork");
  trouble.Works(At(5));
  EXPECT_TRUE(trouble.on());
  EXPECT_TRUE(trouble.FailedFor(7));
  EXPECT_FALSE(trouble.FailedFor(8));
  trouble.Works(At(15));
  EXPECT_FALSE(trouble.on());
  EXPECT_FALSE(trouble.FailedFor(7));
  EXPECT_TRUE(trouble.Failed(At(16), Task(1), "fork").empty()) << "it begins anew";
}

TEST(LaunchTrouble, AllowsOtherStartsInBetweenWithinTheWindow) {
  LaunchTrouble trouble;
  trouble.Failed(At(1), Task(1), "fork");
  trouble.Failed(At(2), Task(2), "fork");
  trouble.Works(At(3));
  EXPECT_EQ(trouble.Failed(At(4), Task(3), "fork").size(), 3U);
  trouble.Works(At(20));
  trouble.Failed(At(30), Task(1), "fork");
  trouble.Failed(At(40), Task(2), "fork");
  EXPECT_TRUE(trouble.Failed(At(30 + 601), Task(3), "fork").empty());
  EXPECT_EQ(trouble.Failed(At(30 + 602), Task(4), "fork").size(), 3U);
}

}  // namespace
}  // namespace carma::core

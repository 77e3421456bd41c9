#include "core/books/launch_trouble.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::core {
namespace {

Time AtSecond(int seconds) {
  return base::FromMs(seconds * 1'000);
}

TaskRecord Launched(std::uint64_t id, std::uint32_t uid = 1) {
  TaskRecord task;
  task.id = TaskId{id};
  task.request.Edit().uid = uid;
  return task;
}

TEST(LaunchTrouble, RepeatedFailuresOfOneTaskAreNotTheMachinesFault) {
  LaunchTrouble trouble;
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(trouble.Failed(AtSecond(i), Launched(1), "fork").empty());
  EXPECT_TRUE(trouble.Failed(AtSecond(20), Launched(2), "fork").empty());
  EXPECT_FALSE(trouble.on());
  EXPECT_TRUE(trouble.MayTry(AtSecond(20)));
  EXPECT_FALSE(trouble.NextTrial());
  EXPECT_EQ(trouble.Text(), "");
}

TEST(LaunchTrouble, OneCertainMachineFailureIsEnough) {
  LaunchTrouble trouble;
  trouble.Failed(AtSecond(1), Launched(1), "fork");
  EXPECT_EQ(trouble.Failed(AtSecond(2), Launched(2), "no descriptors", /*certain=*/true),
            (std::map<TaskId, int>{{TaskId{1}, 1}, {TaskId{2}, 0}}));
  EXPECT_TRUE(trouble.on());
}

TEST(LaunchTrouble, FailuresOfDifferentTasksAreTheMachinesFaultAndDoNotCount) {
  LaunchTrouble trouble;
  trouble.Failed(AtSecond(1), Launched(1), "fork");
  trouble.Failed(AtSecond(2), Launched(2), "fork");
  trouble.Failed(AtSecond(3), Launched(1), "fork");
  EXPECT_EQ(trouble.Failed(AtSecond(4), Launched(3), "no descriptors"),
            (std::map<TaskId, int>{{TaskId{1}, 2}, {TaskId{2}, 1}, {TaskId{3}, 0}}));
  EXPECT_TRUE(trouble.on());
  EXPECT_EQ(trouble.Text(),
            "Tasks are failing to start (no descriptors); one start is attempted every 0:10.");
  EXPECT_EQ(trouble.NextTrial(), AtSecond(14));
  EXPECT_FALSE(trouble.MayTry(AtSecond(13)));
  EXPECT_TRUE(trouble.MayTry(AtSecond(14)));
  trouble.Tried(AtSecond(14));
  EXPECT_FALSE(trouble.MayTry(AtSecond(15)));
  EXPECT_EQ(trouble.Failed(AtSecond(15), Launched(4), "fork"),
            (std::map<TaskId, int>{{TaskId{4}, 0}}));
  EXPECT_EQ(trouble.NextTrial(), AtSecond(24));
}

TEST(LaunchTrouble, OnlyALaterStartEndsTheTrouble) {
  LaunchTrouble trouble;
  for (std::uint64_t id = 1; id <= 3; ++id) trouble.Failed(AtSecond(5), Launched(id, 7), "fork");
  trouble.Works(AtSecond(5));
  EXPECT_TRUE(trouble.on());
  EXPECT_TRUE(trouble.FailedFor(7));
  EXPECT_FALSE(trouble.FailedFor(8));
  trouble.Works(AtSecond(15));
  EXPECT_FALSE(trouble.on());
  EXPECT_FALSE(trouble.FailedFor(7));
  EXPECT_TRUE(trouble.Failed(AtSecond(16), Launched(1), "fork").empty())
      << "the count starts again";
}

TEST(LaunchTrouble, AllowsOtherStartsInBetweenWithinTheWindow) {
  LaunchTrouble trouble;
  trouble.Failed(AtSecond(1), Launched(1), "fork");
  trouble.Failed(AtSecond(2), Launched(2), "fork");
  trouble.Works(AtSecond(3));
  EXPECT_EQ(trouble.Failed(AtSecond(4), Launched(3), "fork").size(), 3U);
  trouble.Works(AtSecond(20));
  trouble.Failed(AtSecond(30), Launched(1), "fork");
  trouble.Failed(AtSecond(40), Launched(2), "fork");
  EXPECT_TRUE(trouble.Failed(AtSecond(30 + 601), Launched(3), "fork").empty());
  EXPECT_EQ(trouble.Failed(AtSecond(30 + 602), Launched(4), "fork").size(), 3U);
}

}  // namespace
}  // namespace carma::core

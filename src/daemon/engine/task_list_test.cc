#include "daemon/engine/task_list.h"

#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

task::TaskSpec Spec(const std::string& name) {
  task::TaskSpec spec;
  spec.name = name;
  spec.environment = {{"A", "1"}};
  return spec;
}

TEST(TaskList, HoldsIndependentTasks) {
  TaskList list({Spec("a"), Spec("b")});
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(list.At(1), Spec("b"));
  task::TaskSpec bare = Spec("b");
  bare.environment.clear();
  EXPECT_EQ(list.TakeBare(1), bare);
  EXPECT_TRUE(TaskList().empty());
}

TEST(TaskList, AnArrayIsOneDescription) {
  TaskList list = TaskList::Array(Spec("a"), {4, 7});
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(list.At(1).array_index, 7);
  EXPECT_EQ(list.At(1).environment, Spec("a").environment);
  EXPECT_EQ(&list.Like(0), &list.Like(1));
  EXPECT_EQ(list.BytesOf(1), DescriptionBytes(Spec("a")));
  EXPECT_EQ(list.BytesOfAll(), 2 * list.BytesOf(1));
  EXPECT_TRUE(list.TakeBare(0).environment.empty());
  EXPECT_EQ(list.At(1).environment.size(), 1U) << "the other tasks keep their environments";
}

TEST(TaskList, ABatchHasOneEnvironmentForTasksWithoutTheirOwn) {
  task::TaskSpec plain = Spec("plain");
  plain.environment.clear();
  const TaskList list =
      TaskList::Batch({plain, Spec("own"), plain}, {{"B", "2"}}, {true, false, true});
  EXPECT_EQ(list.At(0).environment, (TaskList::Environment{{"B", "2"}}));
  EXPECT_EQ(list.At(1), Spec("own"));
  EXPECT_EQ(list.At(2).environment.size(), 1U);
  EXPECT_EQ(list.BytesOf(0), DescriptionBytes(list.At(0)));
  EXPECT_EQ(list.BytesOf(1), DescriptionBytes(list.At(1)));
}

TEST(TaskList, CountsTheOverheadOfSmallVariables) {
  task::TaskSpec spec;
  const std::size_t before = DescriptionBytes(spec);
  spec.environment = {{"A", ""}, {"B", ""}};
  EXPECT_GT(DescriptionBytes(spec), before + 200);
}

}  // namespace
}  // namespace carma::daemon

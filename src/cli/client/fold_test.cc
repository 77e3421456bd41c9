#include "cli/client/task_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "cli/client/task_words.h"
#include "cli/ids.h"

namespace carma::cli {
namespace {

using ::testing::ElementsAre;

api::TaskView Task(std::uint64_t id, const std::string& state, std::uint64_t array = 0) {
  api::TaskView task;
  task.id = id;
  task.state = state;
  task.name = "train.py";
  if (array != 0) task.array_id = array;
  return task;
}

std::vector<std::string> Names(const std::vector<api::TaskView>& tasks) {
  std::vector<std::string> names;
  for (const api::TaskView& task : tasks)
    names.push_back(std::to_string(task.id) + " " + task.name);
  return names;
}

TEST(Fold, FoldsWaitingTasksOfAnArray) {
  const FoldedTasks folded = FoldArrays(
      {Task(4, "running", 4), Task(5, "running", 4), Task(6, "queued", 4), Task(9, "queued"),
       Task(7, "queued", 4), Task(10, "queued", 10), Task(11, "queued", 4)});
  EXPECT_THAT(Names(folded.tasks), ElementsAre("4 train.py", "5 train.py", "6 train.py x3",
                                               "9 train.py", "10 train.py"));
  EXPECT_EQ(folded.ids.at(6), "6-7,11");
}

TEST(Fold, MarksTheLastRowOfACutList) {
  std::vector<api::TaskView> tasks = {Task(1, "queued", 1), Task(2, "queued", 1),
                                      Task(4, "queued", 4), Task(5, "queued", 4)};
  for (api::TaskView& task : tasks) {
    task.array_index = 3;
    task.parameters = {{"lr", "0.1"}};
  }
  const FoldedTasks folded = FoldArrays(tasks, true);
  EXPECT_THAT(Names(folded.tasks), ElementsAre("1 train.py x2", "4 train.py x2+"));
  EXPECT_FALSE(folded.tasks[0].array_index);
  EXPECT_TRUE(folded.tasks[0].parameters.empty());
}

TEST(Fold, ARowOfEndedTasksHasAllGpusAndOnlyACommonTime) {
  const auto ended = [](std::uint64_t id, std::uint64_t array, std::int64_t gpu, std::int64_t s) {
    api::TaskView task = Task(id, "succeeded", array);
    task.gpu_indices = {gpu};
    task.launched_ms = 1'000;
    task.ended_ms = 1'000 + s * 1'000;
    task.peak_mib = s;
    return task;
  };
  const FoldedTasks folded = FoldArrays({ended(1, 1, 2, 60), ended(2, 1, 0, 90), ended(3, 1, 2, 60),
                                         ended(5, 5, 1, 60), ended(6, 5, 1, 60)});
  ASSERT_EQ(folded.tasks.size(), 2U);
  EXPECT_EQ(folded.tasks[0].peak_mib, 90);
  EXPECT_EQ(GpuIndices(folded.tasks[0]), "0,2");
  EXPECT_EQ(TimeText(folded.tasks[0], 0), "-");
  EXPECT_EQ(GpuIndices(folded.tasks[1]), "1");
  EXPECT_EQ(TimeText(folded.tasks[1], 0), "1:00");
  api::TaskView requeued = ended(7, 7, 1, 600);
  requeued.attempt_ended_ms = 31'000;
  EXPECT_EQ(TimeText(requeued, 0), "0:30") << "without its wait before it was cancelled";
}

TEST(Fold, ARowOfEndedTasksHasOneExitCodeAndOnlyACommonReason) {
  const auto failed = [](std::uint64_t id, int code, const std::string& text) {
    api::TaskView task = Task(id, "failed", 1);
    task.exit_code = code;
    task.reason = "NonZeroExit";
    task.reason_text = text;
    return task;
  };
  const FoldedTasks folded =
      FoldArrays({failed(1, 1, "Exit code 1."), failed(2, 2, "Exit code 2."),
                  failed(3, 2, "Exit code 2."), failed(4, 1, "Exit code 1: x.")});
  ASSERT_EQ(folded.tasks.size(), 2U);
  EXPECT_EQ(folded.ids.at(1), "1,4");
  EXPECT_EQ(folded.tasks[0].reason_text, "");
  EXPECT_EQ(folded.ids.at(2), "2-3");
  EXPECT_EQ(folded.tasks[1].reason_text, "Exit code 2.");
}

TEST(Fold, TasksAreBelowTheirDependencies) {
  api::TaskView second = Task(2, "queued"), third = Task(3, "queued"), fourth = Task(4, "queued");
  second.dependencies = {"afterok:1"};
  third.dependencies = {"afterok:1", "afterany:2"};
  fourth.dependencies = {"afterok:99"};
  EXPECT_THAT(Names(AsTree({Task(1, "running"), fourth, second, third})),
              ElementsAre("1 train.py", "2 └─ train.py", "3    └─ train.py", "4 train.py"));
}

TEST(Fold, NumbersAreWrittenAsVerbsTakeThem) {
  EXPECT_EQ(RangesText({1, 2, 3, 7, 9, 10}), "1-3,7,9-10");
}

}  // namespace
}  // namespace carma::cli

#include "cli/client/task_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client/sample_views_test.h"
#include "cli/client/task_text.h"

namespace carma::cli {
namespace {

using api::TaskView;

ListStyle UsualStyle() {
  return {.columns = *ParseColumns(""), .titles = true, .now_ms = kNow};
}

class TaskTableTest : public InUtc {};

TEST_F(TaskTableTest, TaskTableShowsEveryKindOfTask) {
  EXPECT_EQ(TaskTable(SomeTasks(), UsualStyle(), {}), R"(
 ID  NAME                                       USER  ST         TIME  GPUS         MEM  GPU(REASON)
  7  gpt2-small                                 ann   PD         0:00     2      ~29.3G  (GpuMemory)
 42  resnet50                                   bob   R       1:02:05     1  9.1G/12.0G  3
 43  bert                                       cleo  OOM        0:59     1       39.1G  (OutOfMemory)
101  a name with a ?[31m trick, and quite long  dora  CD   1-01:01:01     1        512M  1,2
)" + 1);
}

TEST_F(TaskTableTest, TaskTableFitsTheScreen) {
  EXPECT_EQ(TaskTable(SomeTasks(), UsualStyle(), {.width = 72}), R"(
 ID  NAME          USER  ST         TIME  GPUS         MEM  GPU(REASON)
  7  gpt2-small    ann   PD         0:00     2      ~29.3G  (GpuMemory)
 42  resnet50      bob   R       1:02:05     1  9.1G/12.0G  3
 43  bert          cleo  OOM        0:59     1       39.1G  (OutOfMemor…
101  a name with…  dora  CD   1-01:01:01     1        512M  1,2
)" + 1);
}

TEST_F(TaskTableTest, UsesColoursOnlyOnRequest) {
  const ListStyle style{.columns = *ParseColumns("id,st"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({SomeTasks()[1]}, style, {.width = 80, .colour = true}),
            "42  \033[32mR\033[0m\n");
  EXPECT_EQ(TaskTable({SomeTasks()[1]}, style, {.width = 80}), "42  R\n");
  const ListStyle where{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({SomeTasks()[0], SomeTasks()[1]}, where, {.width = 80, .colour = true}),
            " 7  \033[33m(GpuMemory)\033[0m\n42  3\n")
      << "shown only for a waiting task";
}

TEST_F(TaskTableTest, ColumnsAreChosenByName) {
  EXPECT_EQ(*ParseColumns(" ID, peak"), (std::vector<std::string>{"id", "peak"}));
  const auto unknown = ParseColumns("id,colour");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalid);
  const ListStyle style{.columns = *ParseColumns("state,predicted,promised,used,peak,exit"),
                        .titles = true,
                        .now_ms = kNow};
  EXPECT_EQ(TaskTable({SomeTasks()[1]}, style, {}),
            "STATE    PREDICTED  PROMISED  USED  PEAK  EXIT\n"
            "running          -     12.0G  9.1G    0M     -\n");
}

TEST_F(TaskTableTest, ARetryIsExpectedToNeedItsPeak) {
  TaskView task = SomeTasks()[0];
  const ListStyle style{.columns = *ParseColumns("mem"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "~29.3G\n");
  task.peak_mib = 32 * 1024;
  EXPECT_EQ(TaskTable({task}, style, {}), "~32.0G\n");
}

TEST_F(TaskTableTest, ShowsAccountAndClass) {
  TaskView task = SomeTasks()[0];
  task.qos = "normal";
  TaskView other = task;
  other.account = "vision";
  const ListStyle style{.columns = *ParseColumns("account,class"), .titles = true, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task, other}, style, {}),
            "ACCOUNT  CLASS\n"
            "-        normal\n"
            "vision   normal\n");
}

TEST_F(TaskTableTest, TasksOfASweepShowIndexAndValues) {
  TaskView task = SomeTasks()[0];
  task.name = "sweep";
  task.array_id = 5;
  task.array_index = 2;
  task.parameters = {{"lr", "0.1"}, {"seed", "3"}};
  EXPECT_THAT(TaskTable({task}, UsualStyle(), {}),
              ::testing::AllOf(::testing::HasSubstr("PARAMS"),
                               ::testing::HasSubstr("sweep[2]  lr=0.1 seed=3")));
  const ListStyle style{
      .columns = *ParseColumns("array,index,params"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task, SomeTasks()[1]}, style, {}), "5  2  lr=0.1 seed=3\n-  -  -\n");
  EXPECT_EQ(ParseColumns("id,indx").error().message.substr(0, 40),
            "no column 'indx', did you mean index? (e");
}

TEST_F(TaskTableTest, QueueOrderIsTheOrderOfService) {
  std::vector<TaskView> tasks = {
      {.id = 1, .state = "queued", .queue = "main"},
      {.id = 2, .state = "queued", .priority = 5, .queue = "main"},
      {.id = 3, .state = "queued", .priority = -1, .queue = "recovery"},
      {.id = 4, .state = "running", .launched_ms = 20},
      {.id = 5, .state = "running", .launched_ms = 10},
      {.id = 6, .state = "failed", .launched_ms = 1},
  };
  SortAsQueue(tasks);
  std::vector<std::uint64_t> ids;
  for (const TaskView& task : tasks) ids.push_back(task.id);
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{5, 4, 3, 2, 1, 6}));
}

TEST_F(TaskTableTest, MarksTasksAboveTheirPromise) {
  TaskView task = SomeTasks()[1];
  task.over_promise_mib = 3072;
  const ListStyle style{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3 (OverPromise)\n");
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("uses 3.0G more than its promise plus the margin"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("It uses 3.0G more than its promise plus the margin.\n"));
}

TEST_F(TaskTableTest, MarksTasksOnOtherGpus) {
  TaskView task = SomeTasks()[1];
  task.wrong_gpus = {0, 2};
  const ListStyle style{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3 (WrongDevice)\n");
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("has processes on GPU 0, 2 outside its assignment"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("It has processes on GPU 0, 2 outside its assignment"));
}

TEST_F(TaskTableTest, AnIdleHolderIsVisibleEverywhere) {
  TaskView task = SomeTasks()[1];
  task.idle_since_ms = kNow - 600'000;
  const ListStyle style{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3 (IdleHolder)\n");
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr(
                  "  Idle          has not used its GPUs since 2026-03-01 12:50:00 (10:00)\n"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("It has not used its GPUs since 2026-03-01 12:50:00.\n"));
  task.state = "succeeded";
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3\n") << "it no longer holds GPUs";
}

TEST(TaskTable, ShowsProgressWhereThereIsSome) {
  TaskView task;
  task.id = 42;
  task.state = "running";
  task.gpu_indices = {3};
  const ListStyle usual{.columns = *ParseColumns(""), .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, usual, {}).find("PROGRESS"), std::string::npos);
  task.progress = task::ProgressReport{.phase = "train", .unit = "step", .fraction = 0.5};
  EXPECT_THAT(TaskTable({task}, usual, {}), ::testing::HasSubstr("PROGRESS"));
  task.progress->stalled = true;
  const ListStyle style{
      .columns = *ParseColumns("progress,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "50%  3 (Stalled)\n");
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("  Stalled       no progress since "));
}

}  // namespace
}  // namespace carma::cli

// Views become exactly this text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "cli/completion.h"
#include "cli/gpu_details.h"
#include "cli/gpu_history_text.h"
#include "cli/gpu_text.h"
#include "cli/ids.h"
#include "cli/table.h"
#include "cli/task_table.h"
#include "cli/task_text.h"
#include "cli/task_words.h"

namespace carma::cli {
namespace {

using api::TaskView;

constexpr std::int64_t kNow = 1'772'370'000'000;  // 2026-03-01 13:00:00 UTC

class Text : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

std::vector<TaskView> SomeTasks() {
  return {
      {.id = 7,
       .name = "gpt2-small",
       .user = "ann",
       .state = "queued",
       .reason = "GpuMemory",
       .gpus = 2,
       .predicted_mib = 30'000,
       .queue = "main"},
      {.id = 42,
       .name = "resnet50",
       .user = "bob",
       .state = "running",
       .gpus = 1,
       .gpu_indices = {3},
       .claim_mib = 12'288,
       .observed_mib = 9'318,
       .queue = "main",
       .launched_ms = kNow - 3'725'000},
      {.id = 43,
       .name = "bert",
       .user = "cleo",
       .state = "out_of_memory",
       .reason = "OutOfMemory",
       .gpus = 1,
       .gpu_indices = {0},
       .peak_mib = 40'000,
       .launched_ms = kNow - 60'000,
       .ended_ms = kNow - 1'000},
      {.id = 101,
       .name = "a name with a \x1b[31m trick, and quite long",
       .user = "dora",
       .state = "succeeded",
       .gpus = 1,
       .gpu_indices = {1, 2},
       .peak_mib = 512,
       .launched_ms = kNow - 90'061'000,
       .ended_ms = kNow},
  };
}

ListStyle UsualStyle() {
  return {.columns = *ParseColumns(""), .titles = true, .now_ms = kNow};
}

TEST_F(Text, TaskTableShowsEveryKindOfTask) {
  EXPECT_EQ(TaskTable(SomeTasks(), UsualStyle(), {}), R"(
 ID  NAME                                       USER  ST         TIME  GPUS         MEM  GPU(REASON)
  7  gpt2-small                                 ann   PD         0:00     2      ~29.3G  (GpuMemory)
 42  resnet50                                   bob   R       1:02:05     1  9.1G/12.0G  3
 43  bert                                       cleo  OOM        0:59     1       39.1G  (OutOfMemory)
101  a name with a ?[31m trick, and quite long  dora  CD   1-01:01:01     1        512M  1,2
)" + 1);
}

TEST_F(Text, TaskTableFitsTheScreen) {
  EXPECT_EQ(TaskTable(SomeTasks(), UsualStyle(), {.width = 72}), R"(
 ID  NAME          USER  ST         TIME  GPUS         MEM  GPU(REASON)
  7  gpt2-small    ann   PD         0:00     2      ~29.3G  (GpuMemory)
 42  resnet50      bob   R       1:02:05     1  9.1G/12.0G  3
 43  bert          cleo  OOM        0:59     1       39.1G  (OutOfMemor…
101  a name with…  dora  CD   1-01:01:01     1        512M  1,2
)" + 1);
}

TEST_F(Text, ColoursOnlyWhereAsked) {
  const ListStyle style{.columns = *ParseColumns("id,st"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({SomeTasks()[1]}, style, {.width = 80, .colour = true}),
            "42  \033[32mR\033[0m\n");
  EXPECT_EQ(TaskTable({SomeTasks()[1]}, style, {.width = 80}), "42  R\n");
  const ListStyle where{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({SomeTasks()[0], SomeTasks()[1]}, where, {.width = 80, .colour = true}),
            " 7  \033[33m(GpuMemory)\033[0m\n42  3\n")
      << "why it waits, and not where it runs";
}

TEST_F(Text, ColumnsAreChosenByName) {
  EXPECT_EQ(*ParseColumns(" ID, peak"), (std::vector<std::string>{"id", "peak"}));
  const auto unknown = ParseColumns("id,colour");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, base::ErrorCode::kInvalid);
  const ListStyle style{.columns = *ParseColumns("state,predicted,promised,used,peak,exit"),
                        .titles = true,
                        .now_ms = kNow};
  EXPECT_EQ(TaskTable({SomeTasks()[1]}, style, {}),
            "STATE    PREDICTED  PROMISED  USED  PEAK  EXIT\n"
            "running          -     12.0G  9.1G    0M     -\n");
}

TEST_F(Text, QueueOrderIsTheOrderOfService) {
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

TEST_F(Text, FactsSayWhenTheTurnOfARunningTaskEnds) {
  TaskView task = SomeTasks()[1];
  task.turn_ends_ms = kNow + 5'400'000;
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr(" (in 1:30:00), if somebody waits for its place\n"));
  EXPECT_THAT(TaskFacts(task, kNow + 6'000'000),
              ::testing::HasSubstr("  Turn ends     when somebody waits for its place\n"));
  task.leaves_by_ms = kNow + 60'000;
  const std::string leaving = TaskFacts(task, kNow);
  EXPECT_THAT(leaving, ::testing::HasSubstr("  Leaves by     "));
  EXPECT_THAT(leaving, ::testing::Not(::testing::HasSubstr("Turn ends")));
}

TEST_F(Text, FactsKeepPredictedPromisedAndMeasuredApart) {
  TaskView task = SomeTasks()[1];
  task.uid = 1001;
  task.workdir = "/home/bob";
  task.command = {"python", "train it.py", "--x=1"};
  task.predicted_mib = 10'240;
  task.estimate_method = "given";
  task.peak_mib = 10'000;
  task.attempt = 2;
  task.ooms = 1;
  task.submitted_ms = kNow - 7'200'000;
  task.first_start_ms = kNow - 7'100'000;
  task.time_limit_s = 43'200;
  task.stdout_path = task.stderr_path = "/home/bob/carma-42.out";
  task.placement_reason = "most free memory: 28.0G";
  task.pid = 4711;
  EXPECT_EQ(TaskFacts(task, kNow),
            "Task 42 resnet50\n"
            "  State         running\n"
            "  User          bob (1001)\n"
            "  Command       python 'train it.py' --x=1\n"
            "  Folder        /home/bob\n"
            "  GPUs          1: 3\n"
            "  Why there     most free memory: 28.0G\n"
            "  Predicted     10.0G (given)\n"
            "  Promised      12.0G\n"
            "  Measured      9.1G now, 9.8G at most\n"
            "  Queue         main, priority 0\n"
            "  Attempts      2, out of GPU memory 1 time\n"
            "  Submitted     2026-03-01 11:00:00\n"
            "  Waited        1:40\n"
            "  First start   2026-03-01 11:01:40\n"
            "  Last start    2026-03-01 11:57:55\n"
            "  Ran           1:02:05\n"
            "  Time limit    12:00:00\n"
            "  Process       4711\n"
            "  Output        /home/bob/carma-42.out\n");
}

TEST_F(Text, DoubtsAboutThePredictionStandBesideIt) {
  TaskView task;
  task.state = "queued";
  task.gpus = 1;
  task.predicted_mib = 5'530;
  task.bound_mib = 6'656;
  task.estimate_method = "structural";
  task.estimate_remarks = {"no optimizer is stated: Adam is assumed"};
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("  Predicted     5.4G (structural)\n"
                                   "                no optimizer is stated: Adam is assumed\n"
                                   "  To promise    6.5G\n"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("Memory: 5.4G predicted (structural), 6.5G to be promised.\n"
                                   "  no optimizer is stated: Adam is assumed\n"));
  task.predicted_mib = task.bound_mib = std::nullopt;
  task.estimate_remarks = {"no estimate: m.txt:3: expected a layer"};
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("  Predicted     nothing\n"
                                   "                no estimate: m.txt:3: expected a layer\n"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("Memory: no estimate: m.txt:3: expected a layer\n"));
}

TEST_F(Text, ExplanationSpeaksInSentences) {
  TaskView task = SomeTasks()[0];
  task.reason_text = "needs 30000 MiB on 2 GPUs";
  task.estimate_method = "given";
  const api::ExplainView explain{.task = task,
                                 .gpus = {{.gpu = 0, .fit = "fits"},
                                          {.gpu = 1,
                                           .fit = "not_now",
                                           .reason = "SmBusy",
                                           .reason_text = "91 % busy",
                                           .claimed_mib = 30'720,
                                           .promised_mib = 10'240,
                                           .used_mib = 9'216},
                                          {.gpu = 2, .fit = "never", .reason = "GpuMemory"}},
                                 .ahead = 3,
                                 .policy = "magm",
                                 .collocation = "streams",
                                 .taught_mib = 20'480};
  EXPECT_EQ(Explanation(explain),
            "Task 7 gpt2-small waits (GpuMemory): needs 30000 MiB on 2 GPUs\n"
            "3 tasks are before it in the main queue.\n"
            "  GPU 0 (0M promised, 0M in use) could take it.\n"
            "  GPU 1 (10.0G promised of 30.0G claimed, 9.0G in use) cannot take it now: 91 % busy\n"
            "  GPU 2 (0M promised, 0M in use) can never take it: GpuMemory\n"
            "Memory: 29.3G predicted (given).\n"
            "Tasks of its kind have shown to need 20.0G, which it asks for.\n"
            "Rules: magm\n"
            "Sharing: streams\n");
}

TEST_F(Text, WhoWaitsByItsOwnersWishStandsInNoQueue) {
  TaskView task = SomeTasks()[0];
  task.reason = "Held";
  const std::string text =
      Explanation({.task = task, .gpus = {{.gpu = 0, .fit = "fits"}}, .ahead = 0});
  EXPECT_THAT(text, ::testing::HasSubstr("Apart from that:\n  GPU 0 "));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("first of its queue")));
}

TEST_F(Text, WhatHoldsForSeveralGpusIsSaidOnce) {
  const struct {
    const char* text;
    const char* said;
  } cases[] = {
      {"The samples of GPU 0 do not show it. The samples of GPU 1 do not show it. The samples of "
       "GPU 3 do not show it.",
       "The samples of GPU 0 do not show it (GPUs 1,3 alike)."},
      {"GPU 0 is busy. GPU 1 is full.", "GPU 0 is busy. GPU 1 is full."},
      {"GPU 0 is busy. GPU 1 is busy. GPU 2 is 91.5 % full.",
       "GPU 0 is busy (GPU 1 alike). GPU 2 is 91.5 % full."},
      {"Held until it is released.", "Held until it is released."},
      {"", ""},
  };
  for (const auto& each : cases) EXPECT_EQ(SaidOnce(each.text), each.said);
}

TEST_F(Text, ATaskWithoutGpuIsToldByCoresAndMemory) {
  TaskView task{.id = 9, .name = "tokenize", .state = "queued"};
  task.gpus = 0;
  task.cpus = 4;
  task.host_memory_mib = 8'192;
  task.own_cpus = true;
  task.own_cores = "0-3";
  const std::string facts = TaskFacts(task, 0);
  EXPECT_THAT(facts, ::testing::HasSubstr("none"));
  EXPECT_THAT(facts, ::testing::HasSubstr("4 of its own (0-3)"));
  EXPECT_THAT(facts, ::testing::HasSubstr("8.0G"));
  EXPECT_THAT(facts, ::testing::Not(::testing::HasSubstr("Predicted")));
  const api::HostVerdictView host{.fit = "not_now",
                                  .wants_cpus = 4,
                                  .wants_memory_mib = 8'192,
                                  .cpus = 16,
                                  .free_cpus = 2,
                                  .memory_mib = 65'536,
                                  .free_memory_mib = 32'768};
  EXPECT_THAT(
      Explanation({.task = task, .host = host}),
      ::testing::HasSubstr("Of the server it wants 4 CPUs (2 of 16 free) and 8.0G of memory "
                           "(32.0G of 64.0G free).\n"));
  task.state = "running";
  EXPECT_THAT(Explanation({.task = task}), ::testing::HasSubstr("is running.\n"));
}

TEST_F(Text, GpuTableShowsMeasuredAndPromised) {
  const std::vector<api::GpuView> gpus = {
      {.index = 0,
       .name = "A100-SXM4-40GB",
       .state = "mix",
       .total_mib = 40'960,
       .used_mib = 20'480,
       .claimed_mib = 30'720,
       .promised_mib = 24'576,
       .free_mib = 15'000,
       .sm_active = 0.634,
       .power_w = 251.7,
       .temperature_c = 61,
       .foreign_processes = 1,
       .tasks = {{.id = 42, .user = "bob"}, {.id = 43, .user = "ann"}}},
      {.index = 1, .name = "A100-SXM4-40GB", .state = "down", .trouble = "no sample for 12 s"},
  };
  EXPECT_EQ(
      GpuTable(gpus, {}),
      "GPU  NAME            STATE   USED/TOTAL  PROMISED   FREE   SM  POWER  TEMP  TASKS\n"
      "  0  A100-SXM4-40GB  mix    20.0G/40.0G     24.0G  14.6G  63%   252W   61C  42 bob, 43 "
      "ann, 1 foreign (0M)\n"
      "  1  A100-SXM4-40GB  down         0M/0M        0M      -    -      -     -  (no sample "
      "for 12 s)\n");
}

TEST_F(Text, AScreenOfGpusSaysTheirNameOnce) {
  std::vector<api::GpuView> gpus = {
      {.index = 0, .name = "NVIDIA A100-SXM4-40GB", .state = "idle", .total_mib = 40'960},
      {.index = 1, .name = "NVIDIA A100-SXM4-40GB", .state = "idle", .total_mib = 40'960}};
  EXPECT_EQ(GpuTable(gpus, {.width = 80}),
            "2 x A100-SXM4-40GB\n"
            "GPU  STATE  USED/TOTAL  PROMISED  FREE  SM  POWER  TEMP  TASKS\n"
            "  0  idle     0M/40.0G        0M    0M   -      -     -  -\n"
            "  1  idle     0M/40.0G        0M    0M   -      -     -  -\n");
  gpus[1].name = "NVIDIA L4";
  EXPECT_THAT(GpuTable(gpus, {.width = 80}), ::testing::HasSubstr("  1  L4 "));
  EXPECT_THAT(GpuTable(gpus, {.width = 120}), ::testing::HasSubstr("MEMORY"));
}

TEST_F(Text, EqualGpusAreExplainedOnce) {
  api::ExplainView explain{.task = SomeTasks()[0]};
  for (int gpu = 0; gpu < 6; ++gpu)
    explain.gpus.push_back({.gpu = gpu, .fit = "not_now", .reason = "SmBusy"});
  explain.gpus[3].used_mib = 1024;
  EXPECT_THAT(Explanation(explain),
              ::testing::HasSubstr(
                  "  GPUs 0-2,4-5 (0M promised, 0M in use each) cannot take it now: SmBusy\n"
                  "  GPU 3 (0M promised, 1.0G in use) cannot take it now: SmBusy\n"));
}

TEST_F(Text, LongLinesGoOnBelow) {
  const Screen screen{.width = 20};
  EXPECT_EQ(WrapTo("one two three four five six\nshort\n", screen),
            "one two three four\n  five six\nshort\n");
  EXPECT_EQ(WrapTo("  Label  one two three four five", screen, 9),
            "  Label  one two\n         three four\n         five");
  EXPECT_EQ(WrapTo(std::string(25, 'x'), screen), std::string(20, 'x') + "\n  xxxxx");
  EXPECT_EQ(WrapTo("äöü äöü äöü äöü äöü äöü", screen), "äöü äöü äöü äöü äöü\n  äöü");
  EXPECT_EQ(WrapTo("one two three four five six", {}), "one two three four five six");
  EXPECT_EQ(WrapTo("abc", {.width = 1}), "a\nb\nc");
  EXPECT_EQ(WrapTo("", screen), "");
}

TEST_F(Text, GpuTableMarksInstancesClosedGpusAndIdleHolders) {
  const std::vector<api::GpuView> gpus = {
      {.index = 0,
       .name = "A100",
       .state = "drng",
       .trouble = "Xid 79",
       .tasks = {{.id = 42, .user = "bob", .idle_since_ms = kNow}},
       .alerts = {"3.0G are in use by nobody"},
       .drained_by_rule = true},
      {.index = 1, .name = "A100", .state = "drain", .trouble = "drained by ann: new fan"},
      {.index = 2, .name = "A100", .state = "idle", .mig_profile = "3g.20gb"},
      {.index = 3, .name = "A100 MIG 1g.5gb", .state = "idle", .mig_profile = "1g.5gb"}};
  const std::string table = GpuTable(gpus, {});
  EXPECT_THAT(table, ::testing::HasSubstr("42 bob (idle)  (by rule: Xid 79)  ! 3.0G are"));
  EXPECT_THAT(table, ::testing::HasSubstr("  (drained by ann: new fan)\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("A100 MIG 3g.20gb  idle"));
  EXPECT_THAT(table, ::testing::HasSubstr("A100 MIG 1g.5gb   idle"));
}

api::GpuView SomeGpu() {
  return {.index = 0,
          .uuid = "GPU-1",
          .name = "H100",
          .state = "drng",
          .trouble = "Xid 79",
          .total_mib = 81'920,
          .reserved_mib = 512,
          .used_mib = 20'480,
          .claimed_mib = 30'720,
          .promised_mib = 24'576,
          .free_mib = 15'000,
          .sm_active = 0.634,
          .sm_active_now = 0.71,
          .sample_age_ms = 840,
          .foreign_processes = 2,
          .tasks = {{.id = 42,
                     .user = "bob",
                     .name = "resnet50",
                     .claim_mib = 12'288,
                     .promised_mib = 10'240,
                     .plateau = true,
                     .observed_mib = 9'318,
                     .peak_mib = 10'000,
                     .sharing = "mps",
                     .sm_active = 0.4,
                     .sm_active_by = "kernel-time"},
                    {.id = 43, .user = "ann", .name = "bert", .idle_since_ms = kNow - 600'000}},
          .foreign = {{.pid = 4711, .user = "cleo", .command = "python x.py", .used_mib = 600},
                      {.pid = 4712}},
          .unattributed_mib = 3'072,
          .alerts = {"3.0G are in use by nobody"},
          .drained_by_rule = true,
          .sm_active_p95 = 0.9,
          .metrics = {{.name = "sm_occupancy", .value = 0.314, .source = "gpm"},
                      {.name = "power_w", .value = 251.7, .source = "nvml"},
                      {.name = "pcie_tx_bytes_s", .value = 1.5e9, .source = "gpm"},
                      {.name = "energy_j", .value = 123'456, .source = "nvml"},
                      {.name = "sm_clock_mhz", .value = 1'980, .source = "nvml"},
                      {.name = "utilization", .value = 1, .source = "nvml"}},
          .activity_source = "gpm",
          .mig_profile = "3g.40gb",
          .mig_parent = "GPU-0"};
}

TEST_F(Text, GpuDetailsNameTheSourceOfEverything) {
  EXPECT_EQ(GpuDetails(SomeGpu(), kNow, {.width = 80}), R"(
GPU 0 H100 MIG 3g.40gb: drng
  UUID          GPU-1
  MIG instance  3g.40gb of GPU-0
  Closed        by rule: Xid 79
  Alert         3.0G are in use by nobody
  Memory        20.0G of 80.0G in use, 24.0G promised of 30.0G claimed, closed to new tasks
                512M kept by the driver
                3.0G in use by no process that is listed
  SM activity   63% mean of the window, 90% p95, - EWMA, 71% now (gpm)
  From gpm      sm_occupancy 31%, pcie_tx_bytes_s 1.4 GiB/s
  From nvml     power_w 252 W, energy_j 123 kJ, sm_clock_mhz 1980 MHz,
                utilization 100%
  Read          0.8 s ago
  Tasks
    TASK  USER  NAME      CLAIM  PROMISED  USED  PEAK  SHARING  SM
      42  bob   resnet50  12.0G     10.0G  9.1G  9.8G  mps      40% kernel-time
      43  ann   bert          -         -    0M    0M  -        -
    task 43 has not used its GPUs for 10:00
  Processes of no task
     PID  USER  USED  COMMAND
    4711  cleo  600M  python x.py
    4712  ?        ?  hidden
)" + 1);
}

TEST_F(Text, EventsNameTheirGpuByItsNumber) {
  const std::vector<api::EventView> events = {
      {.when_ms = kNow, .task = 7, .gpu_uuid = "GPU-a", .what = "running"},
      {.when_ms = kNow, .task = 7, .gpu_uuid = "GPU-a", .what = "queued", .text = "Victim"},
      {.when_ms = kNow, .gpu_uuid = "GPU-a", .what = "drain", .text = "Xid 79"},
      {.when_ms = kNow, .gpu_uuid = "GPU-sold", .what = "resume"},
      {.when_ms = kNow, .task = 7, .what = "queued", .text = std::string(400, 'x') + " Retry 1."}};
  EXPECT_EQ(EventLines(events, {{.index = 3, .uuid = "GPU-a"}}),
            "TIME                 TASK  EVENT    WHAT\n"
            "2026-03-01 13:00:00     7  running  GPU 3\n"
            "2026-03-01 13:00:00     7  queued   Victim\n"
            "2026-03-01 13:00:00     -  drain    GPU 3: Xid 79\n"
            "2026-03-01 13:00:00     -  resume   GPU-sold\n"
            "2026-03-01 13:00:00     7  queued   " +
                std::string(400, 'x') + " Retry 1.\n");
}

TEST_F(Text, HowTheAttemptBeforeEndedIsNamedAsSuch) {
  TaskView task = {.id = 7, .name = "a", .state = "running", .exit_detail = "CUDA out of memory"};
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("  Last end      CUDA out of memory"));
  task.state = "failed";
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("  Detail        CUDA out of memory"));
}

TEST_F(Text, GpuDetailsTellASlowType) {
  api::GpuView gpu = SomeGpu();
  EXPECT_THAT(GpuDetails(gpu, kNow, {}), ::testing::Not(::testing::HasSubstr("fastest")));
  gpu.pace = 0.184;
  EXPECT_THAT(GpuDetails(gpu, kNow, {}),
              ::testing::HasSubstr("0.18 of the server's fastest GPU's"));
}

TEST_F(Text, GpuDetailsSayWhatDecidesWithoutSmActivity) {
  const api::GpuView gpu{.index = 3,
                         .uuid = "GPU-3",
                         .name = "T4",
                         .state = "idle",
                         .activity_source = "none",
                         .activity_rule = "one task at a time"};
  const std::string text = GpuDetails(gpu, kNow, {});
  EXPECT_THAT(text, ::testing::HasSubstr("  SM activity   not told\n"
                                         "  Rule          one task at a time\n"));
  EXPECT_EQ(text.find("Tasks"), std::string::npos);
  EXPECT_EQ(text.find("no process that is listed"), std::string::npos) << "that is not known";
}

const HistorySpan kSomeSpan{.from_ms = kNow - 600'000, .to_ms = kNow, .points = 10};

api::GpuHistoryView SomeHistory() {
  api::GpuHistoryView gpu{.index = 1, .uuid = "GPU-1", .name = "H100", .points = {}};
  for (const int minute : {0, 1, 2, 5, 9}) {
    const double part = minute / 9.0;
    gpu.points.push_back({.from_ms = kSomeSpan.from_ms + minute * 60'000,
                          .to_ms = kSomeSpan.from_ms + (minute + 1) * 60'000,
                          .sm_active = part,
                          .sm_peak = minute < 9 ? std::optional(part) : std::nullopt,
                          .used_mib = part * 40'960,
                          .used_peak_mib = part * 40'960,
                          .power_w = 100 + 90.0 * minute,
                          .tasks = minute == 5 ? 12 : minute / 2});
  }
  return gpu;
}

TEST_F(Text, HistoryIsDrawnWithAHoleWhereNothingIsKnown) {
  EXPECT_EQ(HistoryTitle(kSomeSpan) + HistoryBars(SomeHistory(), 40'960, kSomeSpan), R"(
From 2026-03-01 12:50:00 to 2026-03-01 13:00:00, 1:00 a character
GPU 1 H100
  SM mean   ▁▂▃  ▅   █ 38%
  SM peak   ▁▂▃  ▅     56%
  Mem peak  ▁▂▃  ▅   █ 40.0G
  Power     ▂▂▃  ▅   █ 406W
  Tasks     001  +   4
)" + 1);
}

TEST_F(Text, HistoryFitsEightyColumns) {
  HistorySpan span = kSomeSpan;
  span.points = 60;
  const std::string bars = HistoryBars(SomeHistory(), 1'000'000, span);
  for (std::string_view line : base::Split(bars, '\n')) {
    EXPECT_LE(ShownWidth(line), 80u) << line;
  }
}

TEST_F(Text, HistoryAsCsvLeavesOutWhatIsNotKnown) {
  api::GpuHistoryView gpu = SomeHistory();
  gpu.points = {gpu.points[0], gpu.points[4]};
  EXPECT_EQ(HistoryCsv({gpu}),
            "gpu,uuid,from_ms,to_ms,sm_active,sm_peak,dram_active,used_mib,used_peak_mib,power_w,"
            "tasks\n"
            "1,GPU-1,1772369400000,1772369460000,0,0,,0,0,100,0\n"
            "1,GPU-1,1772369940000,1772370000000,1,,,40960,40960,910,4\n");
}

TEST_F(Text, SharingSaysWhatIsEnforced) {
  struct Case {
    TaskView task;
    const char* line;
  };
  const Case cases[] = {
      {{.sharing = "alone"}, "  Sharing       alone on its GPUs\n"},
      {{.sharing = "streams"}, "  Sharing       time slices (streams), nothing is enforced\n"},
      {{.sharing = "mps"}, "  Sharing       MPS, nothing is enforced\n"},
      {{.sharing = "mps", .memory_limit_mib = 12'288},
       "  Sharing       MPS, each process may take 12.0G of memory\n"},
      {{.sharing = "mps", .memory_limit_mib = 12'288, .thread_percent = 30},
       "  Sharing       MPS, each process may take 12.0G of memory and 30% of the SMs\n"},
      {{.sharing = "mig"},
       "  Sharing       a MIG instance, whose memory and SMs the hardware enforces\n"},
      {{.sharing = "streams", .sharing_note = "no MPS for root", .sm_share = 0.3},
       "  Sharing       time slices (streams), nothing is enforced\n"
       "                no MPS for root\n"
       "  SMs asked     at most 30% of each GPU's\n"},
  };
  for (const Case& c : cases) {
    TaskView task = c.task;
    task.state = "running";
    task.gpu_indices = {0};
    EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr(c.line));
  }
  TaskView task = cases[6].task;
  task.state = "running";
  EXPECT_THAT(Explanation({.task = task, .collocation = "mps"}),
              ::testing::HasSubstr("Sharing: mps\n"
                                   "This task: time slices (streams), nothing is enforced.\n"
                                   "  no MPS for root\n"));
  EXPECT_EQ(TaskFacts({.state = "queued"}, kNow).find("Sharing"), std::string::npos)
      << "not known before it starts";
}

TEST_F(Text, WhoOutgrowsItsPromiseIsMarked) {
  TaskView task = SomeTasks()[1];
  task.over_promise_mib = 3072;
  const ListStyle style{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3 (OverPromise)\n");
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("uses 3.0G more than its promise and the margin"));
}

TEST_F(Text, WhoWorksOnAGpuThatItWasNotGivenIsMarked) {
  TaskView task = SomeTasks()[1];
  task.wrong_gpus = {0, 2};
  const ListStyle style{.columns = *ParseColumns("id,where"), .titles = false, .now_ms = kNow};
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3 (WrongDevice)\n");
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("has processes on GPU 0, 2, which it was not given"));
}

TEST_F(Text, AnIdleHolderIsVisibleEverywhere) {
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
  EXPECT_EQ(TaskTable({task}, style, {}), "42  3\n") << "it holds nothing any more";
}

TEST_F(Text, ExitCodesFollowTheShell) {
  struct Case {
    const char* what;
    TaskView task;
    int code;
  };
  const Case cases[] = {
      {"success", {.state = "succeeded", .exit_code = 0}, 0},
      {"its own code", {.state = "failed", .exit_code = 3}, 3},
      {"a signal", {.state = "cancelled", .exit_code = 0, .signal = 15}, 143},
      {"never started", {.state = "rejected"}, 1},
      {"cancelled but ended well", {.state = "cancelled", .exit_code = 0}, 1},
      {"out of memory", {.state = "out_of_memory", .exit_code = 1}, 1},
  };
  for (const Case& c : cases) EXPECT_EQ(ExitCodeOf(c.task), c.code) << c.what;
  EXPECT_EQ(EndText({.state = "failed", .signal = 9}), "failed, ended by signal 9 (Killed)");
  EXPECT_EQ(EndText({.state = "out_of_memory", .exit_code = 1}), "out of memory with exit code 1");
}

TEST(Ids, ReadEveryForm) {
  const std::vector<std::uint64_t> own = {90, 80, 70};
  const std::pair<std::vector<std::string>, std::vector<std::uint64_t>> cases[] = {
      {{"42"}, {42}},         {{"42,43"}, {42, 43}}, {{"40-42", "7"}, {40, 41, 42, 7}},
      {{"5,4-6"}, {5, 4, 6}}, {{"@"}, {90}},         {{"@~2,@"}, {70, 90}},
  };
  for (const auto& [words, ids] : cases) {
    const auto ranges = ParseTaskRanges(words);
    ASSERT_TRUE(ranges) << words[0];
    EXPECT_EQ(ExpandRanges(*ranges, own).value(), ids) << words[0];
  }
  EXPECT_EQ(BackNeeded(*ParseTaskRanges({"@~2,@"})), 3u);
  EXPECT_EQ(BackNeeded(*ParseTaskRanges({"42"})), 0u);
}

TEST(Ids, RefuseWhatCannotBeMeant) {
  for (const char* word : {"", "x", "0", "-1", "4-3", "1-", "-", "1,,2", "@1", "@~", "@~x",
                           "1-99999999999", "99999999999999999999", "1-1000000,1"}) {
    const auto ranges = ParseTaskRanges({word});
    ASSERT_FALSE(ranges) << word;
    EXPECT_EQ(ranges.error().code, base::ErrorCode::kInvalid);
  }
  const auto none = ExpandRanges(*ParseTaskRanges({"@~1"}), {90});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, base::ErrorCode::kNotFound);
}

TEST(Ids, RangesAreWrittenAsTheyAreRead) {
  EXPECT_EQ(RangeText(42, 1), "42");
  EXPECT_EQ(RangeText(42, 10), "42-51");
}

TEST(Screen, TextIsCutByCharacters) {
  EXPECT_EQ(CutTo("héllo", 5), "héllo");
  EXPECT_EQ(CutTo("héllo", 3), "hé…");
  EXPECT_EQ(CutTo("héllo", 1), "…");
  EXPECT_EQ(ShownWidth("h…é"), 3u);
}

const std::vector<VerbWords> kSomeVerbs = {
    {.names = {"list", "ls"},
     .help = "List it's tasks",
     .options = {{"--user", 'u', true, "who"},
                 {"--state", 't', true, "which", {{"queued", "running"}, true}}}},
    {.names = {"trace"},
     .help = "Traces",
     .options = {{"--all", 'a', false, "all"}},
     .verbs = {{.names = {"info"},
                .help = "Look",
                .options = {{"--strict", 0, false, "no"},
                            {"--kind", 0, true, "of it", {{"philly", "pai"}, false}}}},
               {.names = {"window"}, .help = "Cut", .options = {{"--from", 0, true, "when"}}}}},
    {.names = {"estimate"},
     .help = "Predict",
     .options = {{"--batch", 'b', true, "how many"}},
     .verbs = {{.names = {"evaluate"}, .help = "Compare", .options = {}}},
     .takes_files = true},
    {.names = {"status"}, .help = "Show", .options = {}},
    {.names = {"config"},
     .help = "Keys",
     .options = {},
     .verbs = {{.names = {"show"}, .help = "Print", .options = {}, .words = {"a.b", "a.c"}}}},
    {.names = {"shell"},
     .help = "Pick",
     .options = {},
     .words = {"bash", "fish"},
     .takes_files = true}};

TEST(Completion, NamesVerbsAndOptionsInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(shell, kSomeVerbs, {{"--json", 0, false, "JSON"}});
    ASSERT_TRUE(script);
    for (const char* word :
         {"list", "ls", "status", "user", "json", "trace", "info", "window", "strict", "from"}) {
      EXPECT_NE(script->find(word), std::string::npos) << shell << " " << word;
    }
  }
  EXPECT_FALSE(CompletionScript("csh", kSomeVerbs, {}));
}

// What bash offers for the last word of a line, by the script itself.
std::string Offered(const std::string& script, const std::string& line) {
  const std::string path = ::testing::TempDir() + "/completion.bash";
  std::ofstream(path) << script << "COMP_WORDS=(" << line
                      << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_carma\n"
                         "echo \"${COMPREPLY[*]}\"\n";
  std::string offered;
  if (std::FILE* out = ::popen(("bash " + path).c_str(), "r")) {
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, out)) offered += buffer;
    ::pclose(out);
  }
  return offered;
}

TEST(Completion, OffersTheCallersTasksInBash) {
  // In the place of the command: it says what it was asked.
  const std::string folder = ::testing::TempDir() + "/completion_bin";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/carma") << "#!/bin/sh\n"
                                      "case \"$*\" in *--all*) echo ' 3 old failed' ;; esac\n"
                                      "echo '41 train.py queued'\necho '42 train.py running'\n";
  std::filesystem::permissions(folder + "/carma", std::filesystem::perms::owner_all);
  const std::string path = "PATH=" + folder + ":$PATH\n";
  const std::vector<VerbWords> verbs{
      {.names = {"cancel"}, .help = "End", .options = {}, .tasks = TaskNames::kOpen},
      {.names = {"logs"}, .help = "Read", .options = {}, .tasks = TaskNames::kAll}};
  const auto script = CompletionScript("bash", verbs, {{"--json", 0, false, "JSON"}});
  ASSERT_TRUE(script);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"carma cancel ''", "41 42\n"},        {"carma cancel 42", "42\n"},
      {"carma cancel 41,", "41,41 41,42\n"}, {"carma cancel 40 4", "41 42\n"},
      {"carma cancel --", "--json\n"},       {"carma logs ''", "3 41 42\n"},
      {"carma cancel /dev/nul", "\n"},
  };
  for (const auto& [line, offered] : cases) {
    EXPECT_EQ(Offered(path + *script, line), offered) << line;
  }
}

TEST(Completion, OffersSubVerbsAndTheirOptionsInBash) {
  const auto script = CompletionScript("bash", kSomeVerbs, {{"--json", 0, false, "JSON"}});
  ASSERT_TRUE(script);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"carma ''", "list ls trace estimate status config shell\n"},
      {"carma ls -t ''", "queued running\n"},
      {"carma list --state r", "running\n"},
      {"carma list --state queued,r", "queued,running\n"},
      {"carma list --state = r", "running\n"},
      {"carma list --state =", "queued running\n"},
      {"carma trace info --kind p", "philly pai\n"},
      {"carma trace info --kind philly,p", "\n"},
      {"carma trace window --kind /dev/nul", "/dev/null\n"},
      {"carma config show a", "a.b a.c\n"},
      {"carma shell b", "bash\n"},
      {"carma --json st", "status\n"},
      {"carma trace ''", "info window\n"},
      {"carma --socket x trace w", "window\n"},
      {"carma trace --a", "--all\n"},
      {"carma trace info --", "--strict --kind --json\n"},
      {"carma trace window --f", "--from\n"},
      {"carma ls -", "--user -u --state -t --json\n"},
      {"carma trace /dev/nul", "\n"},
      {"carma estimate /dev/nul", "/dev/null\n"},
      {"carma estimate ev", "evaluate\n"},
      {"carma estimate -b /dev/nul", "/dev/null\n"},
  };
  for (const auto& [line, offered] : cases) {
    EXPECT_EQ(Offered(*script, line), offered) << line;
  }
}

}  // namespace
}  // namespace carma::cli

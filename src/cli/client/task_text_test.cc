#include "cli/client/task_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client/sample_views_test.h"
#include "cli/client/task_table.h"

namespace carma::cli {
namespace {

using api::TaskView;

class TaskTextTest : public InUtc {};

TEST_F(TaskTextTest, FactsShowTheEndOfTheTimeSlice) {
  TaskView task = SomeTasks()[1];
  task.turn_ends_ms = kNow + 5'400'000;
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr(" (in 1:30:00), if another task is waiting for its GPUs\n"));
  EXPECT_THAT(
      TaskFacts(task, kNow + 6'000'000),
      ::testing::HasSubstr("  Slice ends    as soon as another task is waiting for its GPUs\n"));
  task.leaves_by_ms = kNow + 60'000;
  const std::string leaving = TaskFacts(task, kNow);
  EXPECT_THAT(leaving, ::testing::HasSubstr("  Leaves by     "));
  EXPECT_THAT(leaving, ::testing::Not(::testing::HasSubstr("Slice ends")));
  task.no_slots = true;
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("  Time slices   exempt\n"));
}

TEST_F(TaskTextTest, FactsKeepPredictedPromisedAndMeasuredApart) {
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
            "  Attempts      2, ran out of GPU memory 1 time\n"
            "  Submitted     2026-03-01 11:00:00\n"
            "  First wait    1:40\n"
            "  First start   2026-03-01 11:01:40\n"
            "  Last start    2026-03-01 11:57:55\n"
            "  Ran           1:02:05\n"
            "  Time limit    12:00:00\n"
            "  Process       4711\n"
            "  Output        /home/bob/carma-42.out\n");
}

TEST_F(TaskTextTest, ATaskThatWaitsAgainShowsBothWaits) {
  TaskView task = SomeTasks()[1];
  task.state = "queued";
  task.attempt = task.checkpoints = 1;
  task.submitted_ms = kNow - 7'200'000;
  task.first_start_ms = kNow - 7'100'000;
  task.waiting_since_ms = kNow - 60'000;
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::AllOf(
                  ::testing::HasSubstr("  First wait    1:40\n"),
                  ::testing::HasSubstr("  Waiting       1:00\n"),
                  ::testing::HasSubstr("  Checkpoints   saved one and left its GPUs 1 time\n")));
}

TEST_F(TaskTextTest, NothingIsPromisedToATaskThatWaitsAgain) {
  TaskView task = SomeTasks()[1];
  task.state = "queued";
  task.attempt = 1;
  task.claim_mib = 0;
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::Not(::testing::HasSubstr("Promised")));
  task.state = "failed";
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("Promised      nothing"));
}

TEST_F(TaskTextTest, FurtherGpusMayHaveASmallerPromise) {
  TaskView task = SomeTasks()[1];
  task.gpus = 2;
  task.claim_mib = 26 * 1024;
  task.attempt = 1;
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("Promised      26.0G on each of its"));
  task.others_claim_mib = 16 * 1024;
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("Promised      26.0G on its first GPU, 16.0G on the other\n"));
}

TEST_F(TaskTextTest, ShowsDoubtsAboutThePrediction) {
  TaskView task;
  task.state = "queued";
  task.gpus = 1;
  task.predicted_mib = 5'530;
  task.bound_mib = 6'656;
  task.estimate_method = "structural";
  task.estimate_remarks = {"no optimizer specified; assuming Adam"};
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("  Predicted     5.4G (structural)\n"
                                   "                no optimizer specified; assuming Adam\n"
                                   "  At most       6.5G\n"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("Memory: 5.4G predicted (structural), 6.5G at most.\n"
                                   "  no optimizer specified; assuming Adam\n"));
  task.predicted_mib = task.bound_mib = std::nullopt;
  task.estimate_remarks = {"no estimate: m.txt:3: expected a layer"};
  EXPECT_THAT(TaskFacts(task, kNow),
              ::testing::HasSubstr("  Predicted     nothing\n"
                                   "                no estimate: m.txt:3: expected a layer\n"));
  EXPECT_THAT(Explanation({.task = task}),
              ::testing::HasSubstr("Memory: no estimate: m.txt:3: expected a layer\n"));
}

TEST_F(TaskTextTest, LabelsTheEndOfThePreviousAttempt) {
  TaskView task = {.id = 7, .name = "a", .state = "running", .exit_detail = "CUDA out of memory"};
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("  Last end      CUDA out of memory"));
  task.state = "failed";
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("  Detail        CUDA out of memory"));
}

TEST_F(TaskTextTest, OutputThatIsNotKeptHasNoPath) {
  EXPECT_THAT(TaskFacts({.id = 7, .stdout_path = "/dev/null"}, kNow),
              ::testing::HasSubstr("  Output        not captured by CARMA\n"));
}

TEST_F(TaskTextTest, SharingShowsTheEnforcedLimits) {
  struct Case {
    TaskView task;
    const char* line;
  };
  const Case cases[] = {
      {{.sharing = "alone"}, "  Sharing       alone on its GPUs\n"},
      {{.sharing = "streams"},
       "  Sharing       streams (kernels take turns), no limits enforced\n"},
      {{.sharing = "mps"}, "  Sharing       MPS, no limits enforced\n"},
      {{.sharing = "mps", .memory_limit_mib = 12'288},
       "  Sharing       MPS, each process may use 12.0G of memory\n"},
      {{.sharing = "mps", .memory_limit_mib = 12'288, .thread_percent = 30},
       "  Sharing       MPS, each process may use 12.0G of memory and 30% of the SMs\n"},
      {{.sharing = "mps", .memory_limit_mib = 12'288, .partition_sms = 56},
       "  Sharing       MPS, 56 dedicated SMs, each process may use 12.0G of memory\n"},
      {{.sharing = "mps", .partition_sms = 56}, "  Sharing       MPS, 56 dedicated SMs\n"},
      {{.sharing = "streams", .group_limit_mib = 12'288},
       "  Sharing       streams (kernels take turns); the kernel limits its processes to a total "
       "of "
       "12.0G on each GPU\n"},
      {{.sharing = "mig"},
       "  Sharing       a MIG instance; the hardware enforces its memory and SM limits\n"},
      {{.sharing = "streams", .sharing_note = "no MPS for root", .sm_share = 0.3},
       "  Sharing       streams (kernels take turns), no limits enforced\n"
       "                no MPS for root\n"
       "  SM limit      at most 30% of each GPU's SMs\n"},
  };
  for (const Case& c : cases) {
    TaskView task = c.task;
    task.state = "running";
    task.gpu_indices = {0};
    EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr(c.line));
  }
  TaskView task = std::end(cases)[-1].task;
  task.state = "running";
  EXPECT_THAT(Explanation({.task = task, .collocation = "mps"}),
              ::testing::HasSubstr("This task: streams (kernels take turns), no limits enforced.\n"
                                   "  no MPS for root\n"));
  EXPECT_EQ(TaskFacts({.state = "queued"}, kNow).find("Sharing"), std::string::npos)
      << "not known before it starts";
}

TEST_F(TaskTextTest, ExplanationSpeaksInSentences) {
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
            "3 tasks are ahead of it in the main queue.\n"
            "  GPU 0 (0M promised, 0M in use) could take it.\n"
            "  GPU 1 (10.0G promised of 30.0G claimed, 9.0G in use) cannot take it now: 91 % busy\n"
            "  GPU 2 (0M promised, 0M in use) can never take it: GpuMemory\n"
            "Memory: 29.3G predicted (given).\n"
            "It requests 20.0G, the amount that similar tasks have needed.\n");
  api::ExplainView unwritten = explain;
  unwritten.store_trouble = "no space left on the disk that holds /var/lib/carma";
  EXPECT_THAT(
      Explanation(unwritten),
      ::testing::StartsWith("carmad cannot write to its database (no space left on the disk "
                            "that holds /var/lib/carma): no tasks start"));
  api::ExplainView behind = explain;
  behind.task.reason = "Priority";
  EXPECT_THAT(Explanation(behind), ::testing::HasSubstr("Rules: magm\n"))
      << "shown only if the task waits because of a rule";
}

TEST_F(TaskTextTest, ALongReasonKeepsItsEnd) {
  TaskView task = SomeTasks()[0];
  task.reason_text = std::string(900, 'x') + " Task 3 makes room.";
  EXPECT_THAT(TaskFacts(task, kNow), ::testing::HasSubstr("Task 3 makes room."));
}

TEST_F(TaskTextTest, HeldTasksHaveNoPlaceInTheQueue) {
  TaskView task = SomeTasks()[0];
  task.reason = "Held";
  const std::string text =
      Explanation({.task = task, .gpus = {{.gpu = 0, .fit = "fits"}}, .ahead = 0});
  EXPECT_THAT(text, ::testing::HasSubstr("Apart from that:\n  GPU 0 "));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("first in its queue")));
  task.reason = "Limit";
  EXPECT_THAT(Explanation({.task = task, .gpus = {}, .ahead = 0}),
              ::testing::Not(::testing::HasSubstr("first in its queue")));
}

TEST_F(TaskTextTest, EqualGpusAreExplainedOnce) {
  api::ExplainView explain{.task = SomeTasks()[0]};
  for (int gpu = 0; gpu < 6; ++gpu)
    explain.gpus.push_back({.gpu = gpu, .fit = "not_now", .reason = "SmBusy"});
  explain.gpus[3].used_mib = 1024;
  EXPECT_THAT(Explanation(explain),
              ::testing::HasSubstr(
                  "  GPUs 0-5 (0M promised, 0M to 1.0G in use each) cannot take it now: SmBusy\n"));
  for (api::VerdictView& verdict : explain.gpus)
    verdict.reason_text = "GPU " + std::to_string(verdict.gpu) + " is busy.";
  EXPECT_THAT(Explanation(explain),
              ::testing::HasSubstr("cannot take it now: each GPU is busy.\n"));
  for (api::VerdictView& verdict : explain.gpus) {
    verdict.reason_text = "GPU " + std::to_string(verdict.gpu) +
                          " shows it by 2026-03-01T13:05:59.1" + std::to_string(verdict.gpu) +
                          "0Z.";
  }
  EXPECT_THAT(Explanation(explain), ::testing::HasSubstr("GPUs 0-5 "))
      << "the milliseconds are not shown";
  explain.gpus[1].reason_text = "GPU 1 is linked to GPU 12.";
  EXPECT_THAT(Explanation(explain), ::testing::HasSubstr("GPU 1 is linked to GPU 12.\n"));
}

TEST_F(TaskTextTest, ShowsWhetherAServingTaskHasPriority) {
  TaskView task{.id = 9, .name = "server", .state = "queued"};
  EXPECT_THAT(TaskFacts(task, 0), ::testing::Not(::testing::HasSubstr("latency-sensitive")));
  task.serve = true;
  EXPECT_THAT(TaskFacts(task, 0), ::testing::HasSubstr("latency-sensitive: under MPS"));
  task.state = "running";
  task.sharing = "mps";
  EXPECT_THAT(TaskFacts(task, 0), ::testing::HasSubstr("latency-sensitive: under MPS"));
  task.sharing = "streams";
  EXPECT_THAT(TaskFacts(task, 0), ::testing::HasSubstr("without MPS its kernels have no priority"));
}

TEST_F(TaskTextTest, ATaskWithoutGpuIsShownByCoresAndMemory) {
  TaskView task{.id = 9, .name = "tokenize", .state = "queued"};
  task.gpus = 0;
  task.cpus = 4;
  task.host_memory_mib = 8'192;
  task.own_cpus = true;
  task.own_cores = "0-3";
  const std::string facts = TaskFacts(task, 0);
  EXPECT_THAT(facts, ::testing::HasSubstr("none"));
  EXPECT_THAT(facts, ::testing::HasSubstr("4 dedicated (0-3)"));
  EXPECT_THAT(facts, ::testing::HasSubstr("8.0G"));
  EXPECT_THAT(facts, ::testing::Not(::testing::HasSubstr("Predicted")));
  api::HostVerdictView host{.fit = "not_now",
                            .wants_cpus = 4,
                            .wants_memory_mib = 8'192,
                            .cpus = 16,
                            .free_cpus = 2,
                            .memory_mib = 65'536,
                            .free_memory_mib = 32'768};
  EXPECT_THAT(Explanation({.task = task, .host = host}),
              ::testing::HasSubstr("It also needs 4 CPUs (2 of 16 free) and 8.0G of memory "
                                   "(32.0G of 64.0G free).\n"));
  host.wants_cpus = 1;
  EXPECT_THAT(Explanation({.task = task, .host = host}),
              ::testing::HasSubstr("It also needs 1 CPU (2 of 16 free)"));
  task.state = "running";
  EXPECT_THAT(Explanation({.task = task}), ::testing::HasSubstr("is running.\n"));
}

TEST_F(TaskTextTest, EventsNameTheirGpuByItsNumber) {
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

}  // namespace
}  // namespace carma::cli

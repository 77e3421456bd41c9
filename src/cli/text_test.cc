// Views become exactly this text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "cli/completion.h"
#include "cli/gpu_text.h"
#include "cli/ids.h"
#include "cli/table.h"
#include "cli/task_text.h"

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
  const api::ExplainView explain{
      .task = task,
      .gpus = {{.gpu = 0, .fit = "fits"},
               {.gpu = 1, .fit = "not_now", .reason = "SmBusy", .reason_text = "91 % busy"},
               {.gpu = 2, .fit = "never", .reason = "GpuMemory"}},
      .ahead = 3,
      .policy = "magm",
      .collocation = "streams"};
  EXPECT_EQ(Explanation(explain),
            "Task 7 gpt2-small waits (GpuMemory): needs 30000 MiB on 2 GPUs\n"
            "3 tasks are before it in the main queue.\n"
            "  GPU 0 could take it.\n"
            "  GPU 1 cannot take it now: 91 % busy\n"
            "  GPU 2 can never take it: GpuMemory\n"
            "Memory: 29.3G predicted (given).\n"
            "Rules: magm\n"
            "Sharing: streams\n");
}

TEST_F(Text, GpuTableShowsMeasuredAndPromised) {
  const std::vector<api::GpuView> gpus = {
      {.index = 0,
       .name = "A100-SXM4-40GB",
       .state = "mix",
       .total_mib = 40'960,
       .used_mib = 20'480,
       .claimed_mib = 24'576,
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
      "  1  A100-SXM4-40GB  down         0M/0M        0M     0M    -      -     -  (no sample "
      "for 12 s)\n");
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
    {.names = {"list", "ls"}, .help = "List it's tasks", .options = {{"--user", 'u', true, "who"}}},
    {.names = {"trace"},
     .help = "Traces",
     .options = {{"--all", 'a', false, "all"}},
     .verbs = {{.names = {"info"}, .help = "Look", .options = {{"--strict", 0, false, "no"}}},
               {.names = {"window"}, .help = "Cut", .options = {{"--from", 0, true, "when"}}}}},
    {.names = {"estimate"},
     .help = "Predict",
     .options = {{"--batch", 'b', true, "how many"}},
     .verbs = {{.names = {"evaluate"}, .help = "Compare", .options = {}}},
     .takes_files = true},
    {.names = {"status"}, .help = "Show", .options = {}}};

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

TEST(Completion, OffersSubVerbsAndTheirOptionsInBash) {
  const auto script = CompletionScript("bash", kSomeVerbs, {{"--json", 0, false, "JSON"}});
  ASSERT_TRUE(script);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"carma ''", "list ls trace estimate status\n"},
      {"carma --json st", "status\n"},
      {"carma trace ''", "info window\n"},
      {"carma --socket x trace w", "window\n"},
      {"carma trace --a", "--all\n"},
      {"carma trace info --", "--strict --json\n"},
      {"carma trace window --f", "--from\n"},
      {"carma ls -", "--user -u --json\n"},
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

#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "report/lines.h"
#include "report/made_run_test.h"

namespace carma::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Report ExampleReport() {
  RunRecord run = Make({.label = "MAGM \"80 %\"", .tasks = 20, .gpus = 2});
  run.tasks[3].name = "line\nbreak";
  run.tasks[4].group = "";
  run.tasks[5].solo_s.reset();
  run.tasks[7].whole_solo_s = 12.5;
  run.tasks[5].reason = "exit code 3";
  run.tasks[5].attempts.back().promised_mib = 12'345;
  run.tasks[5].attempts.back().out_of_queue = core::Duration(60'000);
  run.tasks[6].state = core::TaskState::kRunning;
  run.tasks[6].ended.reset();
  run.tasks[6].attempts.back().end = AttemptEnd::kUnfinished;
  run.gpus[0].points[1].sm_active = std::numeric_limits<double>::quiet_NaN();
  run.bounds = {{"longest task", 1000}};
  run.line_waits_s = {{"GpuMemory", 60}, {"WarmUp", 4.5}};
  return MakeReport(std::move(run));
}

TEST(Reports, RoundTripThroughJson) {
  const Report report = ExampleReport();
  const std::string text = ToJsonText(report);
  const auto read = ReportsFromJsonText(text);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 1u);
  const Report& back = read->front();
  EXPECT_EQ(back.metrics, report.metrics);
  ASSERT_TRUE(back.run);
  EXPECT_EQ(back.run->tasks, report.run->tasks);
  EXPECT_EQ(back.run->label, report.run->label);
  EXPECT_EQ(back.run->bounds, report.run->bounds);
  EXPECT_EQ(back.run->line_waits_s, report.run->line_waits_s);
  EXPECT_EQ(back.run->to, report.run->to);
  ASSERT_EQ(back.run->gpus.size(), 2u);
  EXPECT_EQ(back.run->gpus[0].points.size(), report.run->gpus[0].points.size());
  EXPECT_TRUE(std::isnan(back.run->gpus[0].points[1].sm_active));
  EXPECT_EQ(ToJsonText(back), text);
}

TEST(Reports, MayConsistOfMetricsOnly) {
  const Report report{.metrics = {.label = "kept", .seed = 5, .trace_total_s = 7}, .run = {}};
  const auto read = ReportsFromJsonText(ToJsonText(report));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->front().metrics, report.metrics);
  EXPECT_FALSE(read->front().run);
  const auto list = ReportsFromJsonText("[" + ToJsonText(report) + "," + ToJsonText(report) + "]");
  ASSERT_TRUE(list);
  EXPECT_THAT(*list, SizeIs(2));
}

TEST(Reports, ReportThePlaceOfBrokenRecords) {
  const std::string task = R"({"id":1,"gpus":1,"submitted_ms":0,"state":"succeeded")";
  struct Case {
    std::string run;
    const char* error;
  };
  const Case cases[] = {
      {"7", "/run: expected an object"},
      {R"({"from_ms":0,"to_ms":1})", "/run/version: expected 1"},
      {R"({"version":2,"from_ms":0,"to_ms":1})",
       "/run/version: expected 1; version 2 is not supported"},
      {R"({"version":1,"to_ms":1})", "/run/from_ms"},
      {R"({"version":1,"from_ms":5,"to_ms":1})", "/run/to_ms: expected a time no earlier than"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":{}})", "/run/tasks: expected a list"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":[{"id":1,"state":"eaten","submitted_ms":0}]})",
       "/run/tasks/0/state"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":[)" + task + "}," + task + "}]}",
       "/run/tasks/1/id"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":[)" + task +
           R"(,"attempts":[{"from_ms":0,"to_ms":1,"end":"failed","gpus":[0]}]}]})",
       "/run/tasks/0/attempts/0/gpus: expected indices below 0"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":[)" + task +
           R"(,"attempts":[{"from_ms":3,"to_ms":1,"end":"failed"}]}]})",
       "/run/tasks/0/attempts/0/to_ms"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":[)" + task +
           R"(,"attempts":[{"from_ms":0,"to_ms":5,"end":"failed"},)"
           R"({"from_ms":4,"to_ms":5,"end":"failed"}]}]})",
       "/run/tasks/0/attempts/1/from_ms"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"tasks":[)" + task +
           R"(,"attempts":[{"from_ms":0,"to_ms":1,"end":"gone"}]}]})",
       "/run/tasks/0/attempts/0/end"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"gpus":[{"at_ms":[2,1]}]})", "/run/gpus/0/at_ms"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"gpus":[{"at_ms":[1],"used_mib":[]}]})",
       "/run/gpus/0/used_mib: expected as many"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"gpus":[{"at_ms":[1],"used_mib":[1],)"
       R"("sm_active":[80]}]})",
       "/run/gpus/0/sm_active/0"},
      {R"({"version":1,"from_ms":0,"to_ms":1,"line_waits":[{"reason":"WarmUp","waited_s":-1}]})",
       "/run/line_waits/0/waited_s"},
  };
  for (const Case& c : cases) {
    const auto read = ReportsFromJsonText(R"({"trace_total_s":1,"run":)" + c.run + "}");
    ASSERT_FALSE(read) << c.run;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(read.error().message, StartsWith(c.error)) << c.run;
  }
  EXPECT_FALSE(ReportsFromJsonText("[]"));
  EXPECT_THAT(ReportsFromJsonText(R"([{"trace_total_s":1},{}])").error().message,
              StartsWith("/1/trace_total_s"));
}

TEST(Cases, ShowReplaysAsOneColumnWithNoise) {
  std::vector<Metrics> runs{
      {.label = "base", .trace_total_s = 100}, {.label = "new", .trace_total_s = 80},
      {.label = "base", .trace_total_s = 104}, {.label = "new", .trace_total_s = 84},
      {.label = "same", .trace_total_s = 99},  {.label = "same", .trace_total_s = 106}};
  const std::vector<Case> cases = CasesOf(runs);
  ASSERT_THAT(cases, SizeIs(3));
  EXPECT_EQ(cases[0].replays.size(), 2u);
  const Line& makespan = Lines().front();
  const Estimated base = *Over(cases[0], makespan);
  EXPECT_DOUBLE_EQ(base.mean, 102);
  EXPECT_NEAR(base.sd, 2.828, 1e-3);
  EXPECT_EQ(Difference(makespan, cases[0], cases[1]), "-19.6 %");
  EXPECT_EQ(Difference(makespan, cases[0], cases[2]), "(+0.5 %)");
  // The noise cannot be estimated from a single run.
  EXPECT_FALSE(WithinNoise({.mean = 100, .runs = 1}, {.mean = 100.1, .runs = 1}));
  EXPECT_THAT(Compare(runs), HasSubstr("1:42 ± 2.8 s"));
  EXPECT_THAT(Compare(runs), HasSubstr("within their noise"));
}

TEST(Cases, RunsWithoutALabelAreNeverReplays) {
  const std::vector<Metrics> runs(3);
  EXPECT_THAT(CasesOf(runs), SizeIs(3));
}

TEST(Tables, ShowTheDistanceToTheBounds) {
  Metrics run{.label = "magm", .trace_total_s = 3'000, .bounds = {{"longest task", 2'400}}};
  EXPECT_THAT(Table(run), HasSubstr("above bound: longest task"));
  EXPECT_THAT(Table(run), HasSubstr("40:00 +25.0 %"));
}

TEST(Tables, OfGroupsHaveARowForEachRun) {
  const std::vector<Metrics> runs{Compute(Make({.label = "one"})), Compute(Make({.label = "two"}))};
  const std::string table = GroupTable(runs);
  EXPECT_THAT(table, HasSubstr("heavy   one"));
  EXPECT_THAT(table, HasSubstr("light   two"));
  EXPECT_THAT(table, Not(HasSubstr("note:")));
  const std::string replays = GroupTable(std::vector<Metrics>{runs[0], runs[0], runs[1]});
  EXPECT_EQ(replays, table + "note: values of the first replay of each run\n");
  EXPECT_EQ(GroupTable(std::vector<Metrics>(1)), "");
  // The table of a single run without a name and without solo run times has neither a name nor a
  // slowdown column.
  Metrics plain{.groups = {{.name = "alice", .tasks = 2, .executed = 2, .jct = {.mean = 30}}}};
  EXPECT_EQ(GroupTable({&plain, 1}),
            "group  tasks  waiting  execution  completion  OOM crashes\n"
            "alice      2    0.0 s      0.0 s      30.0 s            0\n");
  plain.groups[0] = {.name = "bob", .tasks = 3};
  EXPECT_EQ(GroupTable({&plain, 1}),
            "group  tasks  waiting  execution  completion  OOM crashes\n"
            "bob        3        -          -           -            0\n");
}

TEST(Tables, ReportNoTimesIfNoTaskHasRun) {
  const std::string table = Table({.label = "queued", .tasks = 3});
  for (const char* name : {"waiting, mean", "waiting, 95 %", "execution, mean", "(JCT), 95 %"}) {
    const std::string row = table.substr(table.find(name));
    EXPECT_THAT(row.substr(0, row.find('\n')), HasSubstr("not reported"));
  }
}

TEST(Csv, HasARowForEachRunAndTask) {
  const std::vector<Report> reports{ExampleReport(), {.metrics = {.label = "=cmd()"}, .run = {}}};
  std::vector<Metrics> metrics;
  for (const Report& each : reports) metrics.push_back(each.metrics);
  const std::string runs = RunsCsv(metrics);
  EXPECT_EQ(std::ranges::count(runs, '\n'), 3);
  EXPECT_THAT(runs, StartsWith("label,simulated,trace_total_s,"));
  EXPECT_THAT(runs, HasSubstr("\"MAGM \"\"80 %\"\"\",1,"));
  EXPECT_THAT(runs, HasSubstr("\"'=cmd()\""));
  EXPECT_THAT(runs, HasSubstr(",provenance,seed\n"));
  const std::string tasks = TasksCsv(reports);
  EXPECT_EQ(std::ranges::count(tasks, '\n'), 21);
  EXPECT_THAT(tasks, HasSubstr("\"line break\""));
  EXPECT_THAT(tasks, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace carma::report

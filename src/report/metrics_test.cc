#include "report/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "report/from_store.h"
#include "report/made_run_test.h"
#include "report/report.h"

namespace carma::report {
namespace {

using core::TaskId;
using core::TaskState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

core::Time MetricsTime(std::int64_t s) {
  return base::FromMs(1'000'000 + s * 1000);
}

store::StoredTask Task(std::uint64_t id, TaskState state, std::int64_t submitted_s,
                       std::optional<std::int64_t> started_s, std::optional<std::int64_t> ended_s) {
  store::StoredTask task;
  task.record.id = TaskId{id};
  task.record.state = state;
  task.record.submitted = MetricsTime(submitted_s);
  if (started_s) task.record.attempt.Edit().started = MetricsTime(*started_s);
  if (ended_s) task.record.ended = MetricsTime(*ended_s);
  return task;
}

store::StoredEvent Step(std::uint64_t id, std::int64_t s, TaskState state) {
  store::StoredEvent event;
  event.when = MetricsTime(s);
  event.kind = store::EventKind::kState;
  event.task = TaskId{id};
  event.what = std::string(core::TaskStateName(state));
  return event;
}

// A run with two GPUs and three tasks:
//   1: submitted 0, runs 10-110, succeeds.                   wait 10, exec 100, JCT 110
//   2: submitted 20, runs 30-40 (OOM), again 100-220.        wait 70, exec 130, JCT 200
//   3: submitted 60, cancelled at 90 while it waits.         not executed
// Trace total: 0 to 220.
struct Example {
  std::vector<store::StoredTask> tasks{Task(1, TaskState::kSucceeded, 0, 10, 110),
                                       Task(2, TaskState::kSucceeded, 20, 100, 220),
                                       Task(3, TaskState::kCancelled, 60, {}, 90)};
  std::vector<store::StoredEvent> events{
      Step(1, 9, TaskState::kLaunching),   Step(1, 10, TaskState::kRunning),
      Step(2, 29, TaskState::kLaunching),  Step(2, 30, TaskState::kRunning),
      Step(2, 40, TaskState::kQueued),     Step(3, 90, TaskState::kCancelled),
      Step(2, 99, TaskState::kLaunching),  Step(2, 100, TaskState::kRunning),
      Step(1, 110, TaskState::kSucceeded), Step(2, 220, TaskState::kSucceeded)};
  // GPU-A is half busy for 100 s, then idle until 20 s after the run. GPU-B has data for 0-220 s.
  std::vector<store::GpuUsage> usage{
      {MetricsTime(0), MetricsTime(100), "GPU-A", 0.5, 10'000, 20'000, 1},
      {MetricsTime(100), MetricsTime(240), "GPU-A", 0.0, 0, 7'000, 0},
      {MetricsTime(0), MetricsTime(220), "GPU-B", 0.25, 5'000, 22'000, 1},
      {MetricsTime(300), MetricsTime(400), "GPU-B", 1, 1, 1, 1},  // after the run
  };
  Example() {
    tasks[0].record.attempt.Edit().number = 1;
    tasks[1].record.attempt.Edit().number = 2;
    tasks[1].record.ooms = 1;
  }
};

Metrics Compute(const std::string& label, std::span<const store::StoredTask> tasks,
                std::span<const store::StoredEvent> events,
                std::span<const store::GpuUsage> usage) {
  StoreRun books(MetricsTime(1'000));
  for (const store::StoredTask& each : tasks) books.Add(each);
  for (const store::StoredEvent& each : events) books.Add(each);
  for (const store::GpuUsage& each : usage) books.Add(each);
  RunRecord run = books.Finish();
  run.label = label;
  return Compute(run);
}

TEST(Metrics, MatchHandComputation) {
  const Example example;
  const Metrics m = Compute("magm", example.tasks, example.events, example.usage);
  EXPECT_EQ(m.label, "magm");
  EXPECT_EQ(m.tasks, 3);
  EXPECT_EQ(m.executed, 2);
  EXPECT_THAT(m.tasks_by_state,
              ElementsAre(Pair(TaskState::kSucceeded, 2), Pair(TaskState::kCancelled, 1)));
  EXPECT_EQ(m.oom_crashes, 1);
  EXPECT_EQ(m.attempts, 3);
  EXPECT_DOUBLE_EQ(m.trace_total_s, 220);
  EXPECT_EQ(m.waiting, (Spread{.mean = 40, .median = 10, .p95 = 70, .max = 70}));
  EXPECT_EQ(m.execution, (Spread{.mean = 115, .median = 100, .p95 = 130, .max = 130}));
  EXPECT_EQ(m.jct, (Spread{.mean = 155, .median = 110, .p95 = 200, .max = 200}));
  EXPECT_DOUBLE_EQ(m.waiting.mean + m.execution.mean, m.jct.mean);
  EXPECT_EQ(m.gpus, 2);
  EXPECT_DOUBLE_EQ(m.gpu_coverage, 1);
  // (10 000 MiB x 100 s + 5 000 MiB x 220 s) / 440 GPU-seconds.
  EXPECT_DOUBLE_EQ(*m.memory_used_mib, 2'100'000.0 / 440);
  EXPECT_DOUBLE_EQ(*m.sm_active, (0.5 * 100 + 0.25 * 220) / 440);
  // The last row covers 140 s, of which 120 s are within the run, so 6 000 J of its 7 000 J count.
  EXPECT_DOUBLE_EQ(*m.energy_mj, 0.048);
  EXPECT_NEAR(*m.power_w, 48'000.0 / 220, 1e-9);
}

TEST(Metrics, ExecutionOfATaskFollowsItsStates) {
  struct Case {
    const char* name;
    store::StoredTask task;
    std::vector<store::StoredEvent> events;
    std::int64_t executed;
    double execution_s;
  };
  const Case cases[] = {
      {"without events the last attempt counts", Task(1, TaskState::kFailed, 0, 5, 25), {}, 1, 20},
      {"a cancelled task runs until its process ends",
       Task(1, TaskState::kCancelled, 0, 5, 25),
       {Step(1, 5, TaskState::kRunning), Step(1, 20, TaskState::kStopping),
        Step(1, 25, TaskState::kCancelled)},
       1,
       20},
      {"without an end event, the record's end is used",
       Task(1, TaskState::kSucceeded, 0, 5, 25),
       {Step(1, 5, TaskState::kRunning)},
       1,
       20},
      {"a repeated running event, as after a restart, counts once",
       Task(1, TaskState::kSucceeded, 0, 5, 25),
       {Step(1, 5, TaskState::kRunning), Step(1, 9, TaskState::kRunning),
        Step(1, 25, TaskState::kSucceeded)},
       1,
       20},
      {"a failed launch is not an execution",
       Task(1, TaskState::kFailed, 0, {}, 25),
       {Step(1, 5, TaskState::kLaunching), Step(1, 25, TaskState::kFailed)},
       0,
       0},
      {"a task that is still running does not count as executed",
       Task(1, TaskState::kRunning, 0, 5, {}),
       {Step(1, 5, TaskState::kRunning)},
       0,
       0},
  };
  for (const Case& c : cases) {
    const Metrics m = Compute("", {&c.task, 1}, c.events, {});
    EXPECT_EQ(m.executed, c.executed) << c.name;
    EXPECT_DOUBLE_EQ(m.execution.mean, c.execution_s) << c.name;
  }
}

TEST(Metrics, UnreportedValuesAreAbsent) {
  Example example;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  example.usage[0].sm_active = nan;
  example.usage[2].energy_j = nan;
  const Metrics m = Compute("", example.tasks, example.events, example.usage);
  EXPECT_DOUBLE_EQ(*m.sm_active, 0.25 * 220 / 340);
  EXPECT_EQ(m.energy_mj, std::nullopt);
  EXPECT_EQ(m.power_w, std::nullopt);
  EXPECT_THAT(Table(m), HasSubstr("not reported"));
}

TEST(Metrics, ARunWithoutTasksOrGpusIsAllZeros) {
  const Metrics m = Compute("", {}, {}, {});
  EXPECT_EQ(m, Metrics{});
  EXPECT_EQ(*FromJsonText(ToJsonText(m)), m);
  EXPECT_THAT(ToJsonText(m), HasSubstr(R"("jct_s":null)"));
  EXPECT_FALSE(Table(m).empty());
}

TEST(Metrics, ReportsMissingGpuRecords) {
  Example example;
  example.usage.resize(1);
  const Metrics m = Compute("half", example.tasks, example.events, example.usage);
  EXPECT_DOUBLE_EQ(m.gpu_coverage, 100.0 / 220);
  EXPECT_THAT(Table(m), HasSubstr("note: half: GPU records cover 45 % of the run"));
}

TEST(Metrics, RoundTripThroughJson) {
  const Example example;
  const Metrics m = Compute("magm", example.tasks, example.events, example.usage);
  EXPECT_EQ(*FromJsonText(ToJsonText(m)), m);
}

TEST(Metrics, ReportThePlaceOfBrokenJson) {
  struct Case {
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"", "not JSON"},
      {"[]", "expected an object"},
      {"{}", "/trace_total_s"},
      {R"({"trace_total_s":-1})", "/trace_total_s"},
      {R"({"trace_total_s":1,"sm_active":80})", "/sm_active"},
      {R"({"trace_total_s":1,"jct_s":{"mean":"x"}})", "/jct_s/mean"},
      {R"({"trace_total_s":1,"jct_s":3})", "/jct_s"},
      {R"({"trace_total_s":1,"tasks_by_state":{"eaten":1}})", "/tasks_by_state"},
      {R"({"trace_total_s":1,"tasks_by_state":7})", "/tasks_by_state"},
  };
  for (const Case& c : cases) {
    const Result<Metrics> m = FromJsonText(c.text);
    ASSERT_FALSE(m) << c.text;
    EXPECT_EQ(m.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(m.error().message, HasSubstr(c.error)) << c.text;
  }
}

TEST(Tables, CompareCasesWithDifferences) {
  Metrics exclusive{.label = "exclusive",
                    .tasks_by_state = {{TaskState::kSucceeded, 60}},
                    .tasks = 60,
                    .executed = 60,
                    .trace_total_s = 36'000,
                    .waiting = {.mean = 7'200, .p95 = 9'000},
                    .execution = {.mean = 45.25},
                    .gpus = 4,
                    .sm_active = 0.4,
                    .energy_mj = 33.2,
                    .gpu_coverage = 1};
  Metrics magm = exclusive;
  magm.label = "magm-mps";
  magm.trace_total_s = 27'000;
  magm.sm_active = 0.5;
  magm.energy_mj = std::nullopt;
  magm.oom_crashes = 2;
  magm.tasks_by_state = {{TaskState::kSucceeded, 59}, {TaskState::kFailed, 1}};
  const Metrics runs[] = {exclusive, magm};
  EXPECT_EQ(Compare(runs),
            "                            exclusive      magm-mps\n"
            "trace total time             10:00:00       7:30:00       -25.0 %\n"
            "waiting, mean                 2:00:00       2:00:00        +0.0 %\n"
            "waiting, 95 %                 2:30:00       2:30:00        +0.0 %\n"
            "execution, mean                45.2 s        45.2 s        +0.0 %\n"
            "completion (JCT), mean          0.0 s         0.0 s\n"
            "completion (JCT), 95 %          0.0 s         0.0 s\n"
            "GPU memory in use, mean  not reported  not reported\n"
            "SM activity, mean              40.0 %        50.0 %  +10.0 points\n"
            "GPU energy                   33.20 MJ  not reported\n"
            "GPU power, mean          not reported  not reported\n"
            "OOM crashes                         0             2\n"
            "tasks                              60            60        +0.0 %\n"
            "  succeeded                        60            59\n"
            "  failed                            0             1\n");
  EXPECT_EQ(Compare({}), "");
}

TEST(Tables, ShowLargeCountsInFull) {
  const Metrics runs[] = {{.label = "week", .tasks_by_state = {{TaskState::kSucceeded, 150'000}}}};
  EXPECT_THAT(Compare(runs), HasSubstr(" 150000\n"));
}

}  // namespace
}  // namespace carma::report

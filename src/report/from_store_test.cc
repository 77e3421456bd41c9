#include "report/from_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/metrics.h"
#include "report/report.h"

namespace carma::report {
namespace {

using core::TaskState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

core::Time At(std::int64_t s) {
  return base::FromMs(s * 1000);
}

store::StoredTask TaskIn(TaskState state, std::optional<std::int64_t> started_s,
                         std::optional<std::int64_t> ended_s, std::vector<std::string> gpus) {
  store::StoredTask task;
  task.record.id = core::TaskId{1};
  task.record.state = state;
  task.record.submitted = At(0);
  if (started_s) task.record.attempt.Edit().started = At(*started_s);
  if (ended_s) task.record.ended = At(*ended_s);
  task.gpu_uuids = std::move(gpus);
  return task;
}

store::StoredEvent StepTo(std::int64_t s, TaskState state, std::string gpu = "",
                          std::string text = "") {
  store::StoredEvent event;
  event.when = At(s);
  event.kind = store::EventKind::kState;
  event.task = core::TaskId{1};
  event.what = std::string(core::TaskStateName(state));
  event.gpu_uuid = std::move(gpu);
  event.text = std::move(text);
  return event;
}

std::vector<Attempt> AttemptsOf(const store::StoredTask& task,
                                const std::vector<store::StoredEvent>& events) {
  StoreRun books(At(1'000));
  books.Add(task);
  for (const store::StoredEvent& event : events) books.Add(event);
  return books.Finish().tasks.at(0).attempts;
}

TEST(StoreRun, AttemptsFollowTheStates) {
  store::StoredTask crashed = TaskIn(TaskState::kSucceeded, 100, 200, {"A", "B"});
  crashed.record.ooms = 1;
  struct Case {
    const char* name;
    store::StoredTask task;
    std::vector<store::StoredEvent> events;
    std::vector<Attempt> attempts;
  };
  const Case cases[] = {
      {"a crash, then a success on both GPUs that the row names",
       crashed,
       {StepTo(10, TaskState::kRunning, "A"),
        StepTo(30, TaskState::kQueued, "", "OutOfMemory: CUDA out of memory"),
        StepTo(100, TaskState::kRunning, "B"), StepTo(200, TaskState::kSucceeded, "B")},
       {{At(10), At(30), AttemptEnd::kOutOfMemory, {0}},
        {At(100), At(200), AttemptEnd::kSucceeded, {0, 1}}}},
      {"a crash that only the row counts",
       crashed,
       {StepTo(10, TaskState::kRunning, "A"), StepTo(30, TaskState::kQueued, "", "NonZeroExit: 1"),
        StepTo(100, TaskState::kRunning, "A"), StepTo(200, TaskState::kSucceeded, "A")},
       {{At(10), At(30), AttemptEnd::kOutOfMemory, {0}},
        {At(100), At(200), AttemptEnd::kSucceeded, {0, 1}}}},
      {"a stop before requeueing is not a crash",
       TaskIn(TaskState::kQueued, 10, {}, {}),
       {StepTo(10, TaskState::kRunning, "A"), StepTo(20, TaskState::kStopping, "A"),
        StepTo(25, TaskState::kQueued)},
       {{At(10), At(25), AttemptEnd::kStopped, {0}}}},
      {"a task that checkpointed and exited when asked was stopped",
       TaskIn(TaskState::kQueued, 10, {}, {}),
       {StepTo(10, TaskState::kRunning, "A"),
        StepTo(25, TaskState::kQueued, "", "Preempted: Made room for task 2.")},
       {{At(10), At(25), AttemptEnd::kStopped, {0}}}},
      {"a process that is still running is unfinished",
       TaskIn(TaskState::kRunning, 10, {}, {"A"}),
       {StepTo(10, TaskState::kRunning, "A")},
       {{At(10), At(1'000), AttemptEnd::kUnfinished, {0}}}},
      {"the GPUs of the next launch do not belong to the previous attempt",
       TaskIn(TaskState::kLaunching, 10, {}, {"B"}),
       {StepTo(10, TaskState::kRunning, "A"), StepTo(20, TaskState::kQueued, "", "Victim"),
        StepTo(30, TaskState::kLaunching, "B")},
       {{At(10), At(20), AttemptEnd::kFailed, {1}}}},
      {"without events, the last attempt is taken from the row",
       TaskIn(TaskState::kTimedOut, 10, 40, {"A"}),
       {},
       {{At(10), At(40), AttemptEnd::kStopped, {0}}}},
      {"cancelled in the queue", TaskIn(TaskState::kCancelled, {}, 40, {}), {}, {}},
  };
  for (const Case& c : cases) EXPECT_EQ(AttemptsOf(c.task, c.events), c.attempts) << c.name;
}

TEST(StoreRun, TakesEndGpusAndPromiseFromTheAccount) {
  StoreRun books(At(1'000));
  books.Add(TaskIn(TaskState::kSucceeded, 100, 200, {"A"}));
  for (const auto& step :
       {StepTo(10, TaskState::kRunning, "A"), StepTo(30, TaskState::kQueued, "", "OutOfMemory: x"),
        StepTo(100, TaskState::kRunning, "A"), StepTo(200, TaskState::kSucceeded, "A")}) {
    books.Add(step);
  }
  store::EndedAttempt first{.task = core::TaskId{1}, .number = 1};
  first.taken = {.from = At(8), .to = At(20)};  // while carmad was down
  first.started = At(9);
  first.promised_mib = 5'000;
  first.gpu_uuids = {"B", "A"};
  books.Add(first);
  store::EndedAttempt failed{.task = core::TaskId{1}, .number = 2};  // its launch failed
  failed.taken = {.from = At(90), .to = At(101)};
  failed.promised_mib = 9'000;
  failed.gpu_uuids = {"B"};
  books.Add(failed);
  store::EndedAttempt of_another = first;
  of_another.task = core::TaskId{7};
  books.Add(of_another);
  const std::vector<Attempt> attempts = books.Finish().tasks.at(0).attempts;
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].ended, At(20));
  EXPECT_EQ(attempts[0].gpus, (std::vector{0, 1}));
  EXPECT_EQ(attempts[0].promised_mib, 5'000);
  EXPECT_EQ(attempts[1].gpus, std::vector{0});
  EXPECT_EQ(attempts[1].promised_mib, std::nullopt);
}

TEST(StoreRun, TakesTheTimesOfATaskFromItsAccountIfTheClockWasSetWhileItRan) {
  for (const std::int64_t by_s : {5'000, -5'000}) {
    StoreRun books(At(100'000));
    store::StoredTask task = TaskIn(TaskState::kSucceeded, 20'100 + by_s, 20'700 + by_s, {"A"});
    task.record.submitted = At(20'000 + by_s);  // corrected by the restarted daemon
    books.Add(task);
    books.Add(StepTo(20'100, TaskState::kRunning, "A"));
    books.Add(StepTo(20'700 + by_s, TaskState::kSucceeded, "A"));
    store::EndedAttempt stored{.task = core::TaskId{1}, .number = 1};
    stored.taken = {.from = At(20'099 + by_s), .to = At(20'700 + by_s)};
    stored.started = At(20'100 + by_s);
    stored.gpu_uuids = {"A"};
    books.Add(stored);
    const Metrics metrics = Compute(books.Finish());
    EXPECT_DOUBLE_EQ(metrics.execution.mean, 600) << by_s;
    EXPECT_DOUBLE_EQ(metrics.waiting.mean, 100) << by_s;
  }
}

// A report with attempts that overlap is refused when it is read.
TEST(StoreRun, PutsAttemptsInOrderIfTheClockWasSetBackBetweenThem) {
  StoreRun books(At(100'000));
  store::StoredTask task = TaskIn(TaskState::kSucceeded, 15'000, 16'000, {"A"});
  task.record.submitted = At(20'000);
  books.Add(task);
  for (const auto& step :
       {StepTo(20'100, TaskState::kRunning, "A"), StepTo(20'300, TaskState::kQueued),
        StepTo(15'000, TaskState::kRunning, "A"), StepTo(16'000, TaskState::kSucceeded, "A")}) {
    books.Add(step);
  }
  const Report report = MakeReport(books.Finish());
  ASSERT_EQ(report.run->tasks[0].attempts.size(), 2U);
  EXPECT_EQ(report.run->tasks[0].attempts[0].started, At(14'800));
  EXPECT_EQ(report.run->tasks[0].attempts[0].ended, At(15'000));
  EXPECT_DOUBLE_EQ(report.metrics.execution.mean, 1'200);
  EXPECT_DOUBLE_EQ(report.metrics.trace_total_s, 1'200);
  const auto read = ReportsFromJsonText(ToJsonText(report));
  EXPECT_TRUE(read) << read.error().message;
}

TEST(StoreRun, ATaskThatNeverRanWasNotSubmittedAfterItsEnd) {
  StoreRun books(At(100'000));
  store::StoredTask task = TaskIn(TaskState::kCancelled, {}, 15'000, {});
  task.record.submitted = At(20'000);  // before the clock was set back
  books.Add(task);
  EXPECT_DOUBLE_EQ(Compute(books.Finish()).trace_total_s, 0);
}

TEST(StoreRun, GivesTheReasonOfTheEndWithoutTheTasksOutput) {
  const auto reason = [](TaskState state, core::ReasonCode code, const char* text) {
    store::StoredTask task = TaskIn(state, 10, 40, {"A"});
    task.record.reason = {code, text};
    task.record.exit.Edit().detail = "killed by signal 15 (SIGTERM)";
    StoreRun books(At(1'000));
    books.Add(task);
    return books.Finish().tasks.at(0).reason;
  };
  using core::ReasonCode;
  EXPECT_EQ(reason(TaskState::kFailed, ReasonCode::kNonZeroExit, "Exit code 1: KeyError: 7."),
            "Exit code 1.")
      << "all users may read the report";
  EXPECT_EQ(reason(TaskState::kTimedOut, ReasonCode::kTimeLimit, "Ran longer than its time limit."),
            "Ran longer than its time limit.");
  EXPECT_EQ(reason(TaskState::kSucceeded, ReasonCode::kNone, "bye"), "");
}

TEST(StoreRun, DoesNotCountTheTimeBetweenAnEndAndTheRequeueAsWaiting) {
  store::StoredEvent requeued = StepTo(500, TaskState::kQueued);
  requeued.kind = store::EventKind::kEdit;
  requeued.what = "edited";
  struct Case {
    const char* name;
    std::vector<store::StoredEvent> first_life;
    double waiting_s;
  };
  const Case cases[] = {
      {"a task that had run",
       {StepTo(5, TaskState::kRunning, "A"), StepTo(20, TaskState::kSucceeded, "A")},
       5 + 30},
      {"a task that was cancelled while it waited", {StepTo(20, TaskState::kCancelled)}, 30},
  };
  for (const Case& c : cases) {
    StoreRun books(At(1'000));
    books.Add(TaskIn(TaskState::kSucceeded, 530, 600, {"A"}));
    for (const store::StoredEvent& event : c.first_life) books.Add(event);
    for (const store::StoredEvent& event :
         {requeued, StepTo(530, TaskState::kRunning, "A"), StepTo(600, TaskState::kSucceeded, "A")})
      books.Add(event);
    EXPECT_DOUBLE_EQ(Compute(books.Finish()).waiting.mean, c.waiting_s) << c.name;
  }
}

TEST(StoreRun, IgnoresEventsOfUnknownTasks) {
  StoreRun books(At(1'000));
  books.Add(TaskIn(TaskState::kSucceeded, {}, 40, {}));
  store::StoredEvent other = StepTo(10, TaskState::kRunning, "A");
  other.task = core::TaskId{7};
  books.Add(other);
  store::StoredEvent drain = StepTo(10, TaskState::kRunning);
  drain.kind = store::EventKind::kDrain;
  books.Add(drain);
  EXPECT_THAT(books.Finish().tasks.at(0).attempts, IsEmpty());
}

TEST(StoreRun, CutsUsageToTheRunAndKeepsGaps) {
  StoreRun books(At(1'000));
  books.NameGpu("A", "GPU 0", "A100", 40'000);
  books.Add(TaskIn(TaskState::kSucceeded, 10, 100, {"A"}));
  books.Add(store::GpuUsage{At(-60), At(0), "A", 0.9, 9, 9, 1});  // before the run
  books.Add(store::GpuUsage{At(-20), At(40), "A", 0.5, 100, 600, 1});
  books.Add(store::GpuUsage{At(60), At(90), "A", 0.25, 200, 600, 1});
  books.Add(store::GpuUsage{At(100), At(160), "A", 0.9, 9, 9, 1});  // after
  const RunRecord run = books.Finish();
  ASSERT_EQ(run.gpus.size(), 1u);
  EXPECT_EQ(run.gpus[0].name, "GPU 0");
  EXPECT_EQ(run.gpus[0].usable_mib, 40'000);
  const std::vector<GpuPoint>& points = run.gpus[0].points;
  ASSERT_EQ(points.size(), 4u);
  EXPECT_DOUBLE_EQ(points[0].power_w, 10);
  EXPECT_EQ(points[1].at, At(40));
  EXPECT_TRUE(std::isnan(points[1].used_mib));
  EXPECT_DOUBLE_EQ(points[2].power_w, 20);
  EXPECT_TRUE(std::isnan(points[3].used_mib));
  const Metrics metrics = Compute(run);
  EXPECT_DOUBLE_EQ(metrics.gpu_coverage, 0.7);
  EXPECT_DOUBLE_EQ(*metrics.sm_active, (0.5 * 40 + 0.25 * 30) / 70);
}

TEST(StoreRun, SumsHeadOfQueueWaits) {
  using core::ReasonCode;
  StoreRun books(At(1'000));
  books.Add(TaskIn(TaskState::kSucceeded, 10, 100, {"A"}));
  books.Add(store::LineWait{At(-60), At(0), ReasonCode::kWarmUp, core::Duration(9'000)});  // before
  books.Add(store::LineWait{At(0), At(60), ReasonCode::kGpuMemory, core::Duration(9'000)});
  books.Add(store::LineWait{At(60), At(100), ReasonCode::kGpuMemory, core::Duration(1'500)});
  EXPECT_THAT(books.Finish().line_waits_s, ElementsAre(Pair("GpuMemory", 10.5)));
}

}  // namespace
}  // namespace carma::report

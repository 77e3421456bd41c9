#include "core/queue/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler/scheduler.h"
#include "core/values/task.h"

namespace carma::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TaskId kFirst{1}, kSecond{2};

// Task 2 waits for task 1.
TaskRecords Pair(DependencyKind kind) {
  TaskRecords tasks;
  tasks[kFirst].id = kFirst;
  tasks[kSecond].id = kSecond;
  tasks[kSecond].request.Edit().dependencies = {{kFirst, kind, std::nullopt}};
  return tasks;
}

TEST(Dependencies, EachKindIsMetByDifferentFinalStates) {
  struct Case {
    DependencyKind kind;
    TaskState end;
    bool met;
    std::string_view never;
  };
  const Case cases[] = {
      {DependencyKind::kAfterOk, TaskState::kSucceeded, true, ""},
      {DependencyKind::kAfterOk, TaskState::kFailed, false,
       "Task 1 had to succeed first, but it failed."},
      {DependencyKind::kAfterOk, TaskState::kTimedOut, false,
       "Task 1 had to succeed first, but it reached its time limit."},
      {DependencyKind::kAfterOk, TaskState::kOutOfMemory, false,
       "Task 1 had to succeed first, but it ran out of GPU memory."},
      {DependencyKind::kAfterOk, TaskState::kCancelled, false,
       "Task 1 had to succeed first, but it was cancelled."},
      {DependencyKind::kAfterNotOk, TaskState::kSucceeded, false,
       "Task 1 had to fail first, but it succeeded."},
      {DependencyKind::kAfterNotOk, TaskState::kTimedOut, true, ""},
      {DependencyKind::kAfterAny, TaskState::kCancelled, true, ""},
  };
  for (const Case& c : cases) {
    TaskRecords tasks = Pair(c.kind);
    Dependencies dependencies;
    dependencies.Arrive(kSecond);
    dependencies.Register(tasks);
    EXPECT_FALSE(DependenciesMet(tasks[kSecond], tasks));
    EXPECT_EQ(UnmetDependency(tasks[kSecond], tasks)->code, ReasonCode::kDependency);
    EXPECT_EQ(NeverMetDependency(tasks[kSecond], tasks), std::nullopt);
    tasks.erase(kFirst);
    EXPECT_THAT(dependencies.End(kFirst, c.end, tasks), ElementsAre(kSecond));
    EXPECT_EQ(DependenciesMet(tasks[kSecond], tasks), c.met);
    EXPECT_EQ(*NeverMetDependency(tasks[kSecond], tasks).value_or(Reason{}).text, c.never);
  }
}

TEST(Dependencies, AnEndCountsForNewTasksOnlyInTheSameBatch) {
  Dependencies dependencies;
  TaskRecords tasks = Pair(DependencyKind::kAfterOk);
  tasks.erase(kFirst);
  EXPECT_THAT(dependencies.End(kFirst, TaskState::kSucceeded, tasks), IsEmpty());
  dependencies.Arrive(kSecond);
  EXPECT_FALSE(dependencies.AllRegistered());
  dependencies.Register(tasks);
  EXPECT_TRUE(dependencies.AllRegistered());
  EXPECT_TRUE(DependenciesMet(tasks[kSecond], tasks));

  dependencies.Close();
  tasks = Pair(DependencyKind::kAfterOk);
  tasks.erase(kFirst);
  dependencies.Arrive(kSecond);
  dependencies.Register(tasks);
  EXPECT_EQ(NeverMetDependency(tasks[kSecond], tasks)->text,
            "Depends on task 1, which does not exist.");
}

TEST(Dependencies, OnlyTasksThatHaveNotStartedWaitForTheNewEndOfARequeuedTask) {
  for (const bool has_started : {false, true}) {
    Dependencies dependencies;
    TaskRecords tasks = Pair(DependencyKind::kAfterOk);
    tasks[kSecond].request.Edit().dependencies[0].known_final = TaskState::kSucceeded;
    if (has_started) tasks[kSecond].attempt.Edit().launched = base::FromMs(1000);
    dependencies.Return(kFirst);
    dependencies.Register(tasks);
    EXPECT_EQ(DependenciesMet(tasks[kSecond], tasks), has_started);
    tasks.erase(kFirst);
    dependencies.End(kFirst, TaskState::kFailed, tasks);
    EXPECT_EQ(NeverMetDependency(tasks[kSecond], tasks).has_value(), !has_started);
  }
}

TEST(Dependencies, TheNewEndCountsEvenInTheBatchOfTheRequeue) {
  Dependencies dependencies;
  TaskRecords tasks = Pair(DependencyKind::kAfterOk);
  tasks[kSecond].request.Edit().dependencies[0].known_final = TaskState::kSucceeded;
  dependencies.Return(kFirst);
  tasks.erase(kFirst);
  dependencies.End(kFirst, TaskState::kRejected, tasks);
  EXPECT_THAT(dependencies.Register(tasks), ElementsAre(kFirst, kSecond));
  EXPECT_EQ(NeverMetDependency(tasks[kSecond], tasks)->text,
            "Task 1 had to succeed first, but it was rejected.");
}

TEST(Dependencies, ATaskThatWaitsForCoresWaitsForARequeuedTaskAgain) {
  constexpr TaskId kThird{3};
  const Time now = base::FromMs(1000);
  Scheduler core(PolicyConfig{});
  const auto handle = [&](const Event& event) {
    core.Handle(now, event);
    EXPECT_EQ(core.CheckBooks(), std::nullopt) << *core.CheckBooks();
  };
  handle(GpusDiscovered{std::vector<GpuInfo>(1, {"", "A100", 40'960, 424})});
  handle(HostDiscovered{{.cpus = 2}});
  TaskRequest request{.gpus = 0};
  handle(TaskSubmitted{kFirst, request});
  handle(TaskSubmitted{kSecond, request});
  request.cpus = 2;
  request.dependencies = {{kFirst, DependencyKind::kAfterOk, std::nullopt}};
  handle(TaskSubmitted{kThird, request});
  TaskRecord ended = *core.Find(kFirst);
  handle(TaskExited{kFirst, 1, {}});
  EXPECT_EQ(core.ReasonFor(kThird, now).code, ReasonCode::kCpus);

  ended.state = TaskState::kSucceeded;
  handle(TaskRestored{AsSubmitted(ended)});
  EXPECT_EQ(core.ReasonFor(kThird, now).code, ReasonCode::kDependency);
  handle(TaskExited{kSecond, 1, {}});
  EXPECT_EQ(core.Find(kThird)->state, TaskState::kQueued) << "task 1 runs again";
  handle(TaskExited{kFirst, 2, {}});
  EXPECT_EQ(core.Find(kThird)->state, TaskState::kLaunching);
}

TEST(Dependencies, ATaskWhoseLaunchFailedWaitsForARequeuedTaskAgain) {
  const Time now = base::FromMs(1000);
  Scheduler core(PolicyConfig{});
  core.Handle(now, GpusDiscovered{std::vector<GpuInfo>(1, {"", "A100", 40'960, 424})});
  core.Handle(now, HostDiscovered{{.cpus = 2}});
  TaskRequest request{.gpus = 0};
  core.Handle(now, TaskSubmitted{kFirst, request});
  request.dependencies = {{kFirst, DependencyKind::kAfterOk, std::nullopt}};
  core.Handle(now, TaskSubmitted{kSecond, request});
  TaskRecord ended = *core.Find(kFirst);
  core.Handle(now, TaskExited{kFirst, 1, {}});
  core.Handle(now, LaunchFailed{.id = kSecond, .attempt = 1, .retryable = true});
  EXPECT_EQ(core.ReasonFor(kSecond, now).code, ReasonCode::kBackoff);

  ended.state = TaskState::kSucceeded;
  core.Handle(now, TaskRestored{AsSubmitted(ended)});
  EXPECT_EQ(core.ReasonFor(kSecond, now).code, ReasonCode::kDependency);
}

TEST(Dependencies, ATaskThatHasRunIgnoresARequeueEvenIfItsNextLaunchFails) {
  const Time now = base::FromMs(1000);
  Scheduler core(PolicyConfig{});
  core.Handle(now, GpusDiscovered{std::vector<GpuInfo>(1, {"", "A100", 40'960, 424})});
  core.Handle(now, HostDiscovered{{.cpus = 2}});
  TaskRequest request{.gpus = 0};
  core.Handle(now, TaskSubmitted{kFirst, request});
  request.dependencies = {{kFirst, DependencyKind::kAfterOk, std::nullopt}};
  core.Handle(now, TaskSubmitted{kSecond, request});
  TaskRecord ended = *core.Find(kFirst);
  core.Handle(now, TaskExited{kFirst, 1, {}});
  core.Handle(now, TaskStarted{kSecond, 1});
  core.Handle(now, TaskExited{kSecond, 1, {.kind = ExitKind::kLost}});
  ASSERT_EQ(core.Find(kSecond)->attempt->number, 2);
  core.Handle(now, LaunchFailed{.id = kSecond, .attempt = 2, .retryable = true});
  EXPECT_EQ(core.ReasonFor(kSecond, now).code, ReasonCode::kBackoff);

  ended.state = TaskState::kSucceeded;
  core.Handle(now, TaskRestored{AsSubmitted(ended)});
  EXPECT_EQ(core.ReasonFor(kSecond, now).code, ReasonCode::kBackoff);
}

TEST(Dependencies, ATaskThatHasRunIgnoresARequeueEvenIfCarmadRestartsDuringItsNextLaunch) {
  const Time now = base::FromMs(1000);
  Scheduler core(PolicyConfig{});
  core.Handle(now, GpusDiscovered{std::vector<GpuInfo>(1, {"", "A100", 40'960, 424})});
  core.Handle(now, HostDiscovered{{.cpus = 2}});
  TaskRecord requeued{.id = kFirst}, relaunched{.id = kSecond, .state = TaskState::kLaunching};
  TaskRequest request{.gpus = 0};
  requeued.request = request;
  request.dependencies = {{kFirst, DependencyKind::kAfterOk, TaskState::kSucceeded}};
  relaunched.request = request;
  relaunched.attempt.Edit() = {.number = 2, .launched = now};
  relaunched.node_failures = 1;
  relaunched.first_start = now;
  core.Handle(now, TaskRestored{relaunched});
  core.Handle(now, LaunchFailed{.id = kSecond, .attempt = 2, .retryable = true});
  core.Handle(now, TaskRestored{requeued});
  EXPECT_EQ(core.ReasonFor(kSecond, now).code, ReasonCode::kBackoff);
}

TEST(Dependencies, ATaskMustNotDependOnItself) {
  TaskRecords tasks = Pair(DependencyKind::kAfterAny);
  tasks[kSecond].request.Edit().dependencies[0].task = kSecond;
  EXPECT_EQ(NeverMetDependency(tasks[kSecond], tasks)->code, ReasonCode::kDependencyNeverMet);
}

TEST(Dependencies, OnlyKnownEndsCountBeforeSubmission) {
  const TaskId other{7};
  EXPECT_EQ(NeverMetByEnds({{other, DependencyKind::kAfterOk, std::nullopt}}), std::nullopt);
  EXPECT_EQ(NeverMetByEnds({{other, DependencyKind::kAfterAny, TaskState::kFailed}}), std::nullopt);
  const std::optional<Reason> never =
      NeverMetByEnds({{other, DependencyKind::kAfterAny, std::nullopt},
                      {kFirst, DependencyKind::kAfterOk, TaskState::kFailed}});
  ASSERT_TRUE(never);
  EXPECT_EQ(*never->text, "Task 1 had to succeed first, but it failed.");
}

}  // namespace
}  // namespace carma::core

#include "core/values/task.h"

#include <gtest/gtest.h>

#include <set>

namespace carma::core {
namespace {

std::vector<TaskState> AllStates() {
  std::vector<TaskState> states;
  for (int i = 0; i < kTaskStateCount; ++i) states.push_back(static_cast<TaskState>(i));
  return states;
}

TEST(TaskState, EveryStateHasItsOwnNameThatParsesBack) {
  std::set<std::string_view> names;
  for (const TaskState state : AllStates()) {
    EXPECT_EQ(ParseTaskState(TaskStateName(state)), state);
    EXPECT_FALSE(TaskStateCode(state).empty());
    names.insert(TaskStateName(state));
  }
  EXPECT_EQ(names.size(), AllStates().size());
}

TEST(TaskState, ASharedCodeMeansTheUsualState) {
  EXPECT_EQ(ParseTaskState("PD"), TaskState::kQueued);
  EXPECT_EQ(ParseTaskState("R"), TaskState::kRunning);
  EXPECT_EQ(ParseTaskState("OOM"), TaskState::kOutOfMemory);
  EXPECT_EQ(ParseTaskState("oom"), TaskState::kOutOfMemory);
  EXPECT_EQ(ParseTaskState("Running"), TaskState::kRunning);
  EXPECT_EQ(ParseTaskState("NF"), TaskState::kLost);
  EXPECT_EQ(ParseTaskState("nonsense"), std::nullopt);
  EXPECT_EQ(ParseTaskState(""), std::nullopt);
}

TEST(TaskState, AFinalStateHoldsNoGpuAndLeadsOnlyToTheQueue) {
  for (const TaskState from : AllStates()) {
    if (!IsFinal(from)) continue;
    EXPECT_FALSE(HoldsGpus(from));
    for (const TaskState to : AllStates())
      EXPECT_EQ(IsLegalStep(from, to), to == TaskState::kQueued) << TaskStateName(from);
  }
}

TEST(TaskState, AllowsOnlyLegalSteps) {
  struct Case {
    TaskState from;
    TaskState to;
    bool legal;
  };
  for (const Case& c : {Case{TaskState::kSubmitted, TaskState::kEstimating, true},
                        Case{TaskState::kSubmitted, TaskState::kRunning, false},
                        Case{TaskState::kEstimating, TaskState::kRejected, true},
                        Case{TaskState::kQueued, TaskState::kLaunching, true},
                        Case{TaskState::kQueued, TaskState::kRunning, false},
                        Case{TaskState::kLaunching, TaskState::kSucceeded, true},
                        Case{TaskState::kRunning, TaskState::kQueued, true},
                        Case{TaskState::kRunning, TaskState::kLaunching, false},
                        Case{TaskState::kStopping, TaskState::kRunning, false},
                        Case{TaskState::kStopping, TaskState::kTimedOut, true}}) {
    EXPECT_EQ(IsLegalStep(c.from, c.to), c.legal)
        << TaskStateName(c.from) << " -> " << TaskStateName(c.to);
  }
}

TEST(Reason, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ReasonCode::kIdleHolder); ++i)
    names.insert(ReasonName(static_cast<ReasonCode>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ReasonCode::kIdleHolder) + 1);
  EXPECT_EQ(ReasonName(ReasonCode::kNone), "");
  EXPECT_EQ(ReasonName(ReasonCode::kGpuMemory), "GpuMemory");
}

TaskRecord Troubled(TaskState state) {
  TaskRecord task;
  task.state = state;
  task.queue = QueueKind::kRecovery;
  task.held = true;
  task.estimate = Estimate{.peak_mib = 1'000, .method = "given"};
  task.attempt = Attempt{.number = 3,
                         .placement = {{GpuIndex{1}, 1'000}},
                         .placement_reason = {ReasonCode::kNone, "the only one"},
                         .sharing = {.method = SharingMethod::kMps},
                         .launched = Time{Duration{1}},
                         .started = Time{Duration{2}},
                         .idle_since = Time{Duration{3}},
                         .stopping = StopCause::kRequeue};
  task.ooms = task.launch_failures = task.node_failures = task.victim_restarts = 2;
  task.retry_free_mib = 9'000;
  task.retry_on_idle_gpu = true;
  task.not_before = task.ended = Time{Duration{4}};
  task.exit = ExitInfo{.kind = ExitKind::kOutOfMemory, .code = 1};
  task.peak_mib = 8'000;
  return task;
}

TEST(AsSubmitted, ForgetsFailuresAndKeepsLessons) {
  TaskRecord expected;
  expected.state = TaskState::kStopping;
  expected.held = true;
  expected.estimate = Estimate{.peak_mib = 1'000, .method = "given"};
  expected.attempt = Attempt{
      .number = 3, .sharing = {.method = SharingMethod::kMps}, .launched = Time{Duration{1}}};
  expected.ended = Time{Duration{4}};
  expected.exit = ExitInfo{.kind = ExitKind::kOutOfMemory, .code = 1};
  expected.peak_mib = 8'000;
  EXPECT_EQ(AsSubmitted(Troubled(TaskState::kStopping)), expected);
}

TEST(AsSubmitted, AFinalTaskIsEstimatedAgainAndNotHeld) {
  const TaskRecord again = AsSubmitted(Troubled(TaskState::kFailed));
  EXPECT_EQ(again.state, TaskState::kSubmitted);
  EXPECT_EQ(again.estimate, std::nullopt);
  EXPECT_EQ(again.ended, std::nullopt);
  EXPECT_EQ(again.attempt->launched, std::nullopt);
  EXPECT_EQ(again.attempt->number, 3);
  EXPECT_FALSE(again.held);
}

}  // namespace
}  // namespace carma::core

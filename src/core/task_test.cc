#include "core/task.h"

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

TEST(TaskState, ACodeMeansTheStateThatPeopleMean) {
  EXPECT_EQ(ParseTaskState("PD"), TaskState::kQueued);
  EXPECT_EQ(ParseTaskState("R"), TaskState::kRunning);
  EXPECT_EQ(ParseTaskState("OOM"), TaskState::kOutOfMemory);
  EXPECT_EQ(ParseTaskState("NF"), TaskState::kLost);
  EXPECT_EQ(ParseTaskState("nonsense"), std::nullopt);
  EXPECT_EQ(ParseTaskState(""), std::nullopt);
}

TEST(TaskState, AFinalStateIsLeftOnlyToTheQueueAndHoldsNoGpu) {
  for (const TaskState from : AllStates()) {
    if (!IsFinal(from)) continue;
    EXPECT_FALSE(HoldsGpus(from));
    for (const TaskState to : AllStates()) {
      EXPECT_EQ(IsLegalStep(from, to), to == TaskState::kQueued) << TaskStateName(from);
    }
  }
}

TEST(TaskState, StepsFollowTheLifeOfATask) {
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
  for (int i = 0; i <= static_cast<int>(ReasonCode::kVictim); ++i) {
    names.insert(ReasonName(static_cast<ReasonCode>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ReasonCode::kVictim) + 1);
  EXPECT_EQ(ReasonName(ReasonCode::kNone), "");
  EXPECT_EQ(ReasonName(ReasonCode::kGpuMemory), "GpuMemory");
}

}  // namespace
}  // namespace carma::core

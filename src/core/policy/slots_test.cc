#include "core/policy/slots.h"

#include <gtest/gtest.h>

#include <csignal>

#include "core/values/task.h"

namespace carma::core {
namespace {

constexpr Duration kHour{3'600'000};

SlotRules SlotRulesWith(WithoutCheckpoint without = WithoutCheckpoint::kNever) {
  return {.length = 12 * kHour, .notice = kHour, .without_checkpoint = without};
}

TaskRecord Running() {
  TaskRecord task{.id = TaskId{1}};
  task.request.Edit().checkpoint_signal = "USR2";
  task.attempt.Edit().started = base::FromMs(1'000);
  return task;
}

TEST(Slots, ATaskIsAskedToCheckpointANoticeBeforeItsTimeSliceEnds) {
  const TaskRecord task = Running();
  EXPECT_EQ(TurnOver(SlotRulesWith(), task), *task.attempt->started + 11 * kHour);
  EXPECT_EQ(TurnEnds(SlotRulesWith(), task), *task.attempt->started + 12 * kHour);
  EXPECT_EQ(TurnOver({}, task), std::nullopt);
  TaskRecord launching = task;
  launching.attempt.Edit().started.reset();
  EXPECT_EQ(TurnOver(SlotRulesWith(), launching), std::nullopt);
}

TEST(Slots, ExemptTasksKeepTheirGpus) {
  TaskRecord excepted = Running();
  excepted.request.Edit().no_slots = true;
  EXPECT_EQ(TurnOver(SlotRulesWith(), excepted), std::nullopt);
  TaskRecord once_only = Running();
  once_only.request.Edit().requeue = false;
  EXPECT_EQ(TurnOver(SlotRulesWith(), once_only), std::nullopt);
}

TEST(Slots, TaskNotKnownToCheckpointFollowsTheRule) {
  TaskRecord silent = Running();
  silent.request.Edit().checkpoint_signal.reset();
  EXPECT_FALSE(TurnOver(SlotRulesWith(WithoutCheckpoint::kNever), silent));
  EXPECT_TRUE(TurnOver(SlotRulesWith(WithoutCheckpoint::kOnce), silent));
  EXPECT_TRUE(TurnOver(SlotRulesWith(WithoutCheckpoint::kEnd), silent));
  silent.cut_off = 1;
  EXPECT_FALSE(TurnOver(SlotRulesWith(WithoutCheckpoint::kOnce), silent));
  EXPECT_TRUE(TurnOver(SlotRulesWith(WithoutCheckpoint::kEnd), silent));
  silent.checkpoints = 1;
  EXPECT_TRUE(TurnOver(SlotRulesWith(WithoutCheckpoint::kNever), silent));
}

TEST(Slots, TimeSlicesGrowIfATaskNeverCheckpoints) {
  TaskRecord silent = Running();
  silent.request.Edit().checkpoint_signal.reset();
  const SlotRules rules = SlotRulesWith(WithoutCheckpoint::kEnd);
  for (const auto& [cut_off, turn] : {std::pair{0, 12}, {1, 12}, {2, 24}, {4, 96}}) {
    silent.cut_off = cut_off;
    EXPECT_EQ(TurnOf(rules, silent), turn * kHour) << cut_off;
  }
  silent.cut_off = 1'000'000;
  EXPECT_GT(TurnOf(rules, silent), 100 * 365 * 24 * kHour);
  EXPECT_TRUE(TurnOver(rules, silent));
  silent.checkpoints = 1;
  EXPECT_EQ(TurnOf(rules, silent), 12 * kHour);
  TaskRecord says_so = Running();
  says_so.cut_off = 4;
  EXPECT_EQ(TurnOf(rules, says_so), 12 * kHour);
}

TEST(Slots, AnEndShowsWhetherTheTaskSaved) {
  const struct {
    const char* what;
    ExitInfo exit;
    bool saved;
  } cases[] = {
      {"it has finished", {.kind = ExitKind::kSuccess}, false},
      {"an agreed exit code", {.kind = ExitKind::kFailed, .code = 85}, true},
      {"another exit code", {.kind = ExitKind::kFailed, .code = 1}, false},
      {"the checkpoint signal", {.kind = ExitKind::kFailed, .signal = SIGUSR2}, true},
      {"another signal", {.kind = ExitKind::kFailed, .signal = SIGUSR1}, false},
      {"out of memory", {.kind = ExitKind::kOutOfMemory, .code = 85}, false},
  };
  for (const auto& each : cases)
    EXPECT_EQ(SaysItSaved(SlotRulesWith(), Running().request, each.exit), each.saved) << each.what;
  SlotRules zero_too = SlotRulesWith();
  zero_too.exit_codes.push_back(0);
  EXPECT_TRUE(SaysItSaved(zero_too, Running().request, {.kind = ExitKind::kSuccess}));
}

TEST(Slots, TheServersSignalIsTheDefault) {
  TaskRequest request;
  EXPECT_EQ(CheckpointSignal(SlotRulesWith(), request), "USR1");
  request.checkpoint_signal = "TERM";
  EXPECT_EQ(CheckpointSignal(SlotRulesWith(), request), "TERM");
}

TEST(Slots, RejectsImpossibleRules) {
  EXPECT_TRUE(Validate(SlotRules{}));
  EXPECT_TRUE(Validate(SlotRulesWith()));
  SlotRules rules = SlotRulesWith();
  rules.notice = 13 * kHour;
  EXPECT_FALSE(Validate(rules));
  rules = SlotRulesWith();
  rules.checkpoint_signal = "SIGUSR1";
  EXPECT_FALSE(Validate(rules));
  rules = SlotRulesWith();
  rules.exit_codes = {256};
  EXPECT_FALSE(Validate(rules));
}

}  // namespace
}  // namespace carma::core

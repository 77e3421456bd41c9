#include "daemon/engine/history_events.h"

#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

constexpr base::Time kNow = base::Time(base::Duration(5'000));

core::TaskRecord Task(core::TaskState state, int attempt) {
  core::TaskRecord task;
  task.id = core::TaskId{7};
  task.state = state;
  task.attempt.Edit().number = attempt;
  task.reason = {core::ReasonCode::kOutOfMemory, "it wanted more"};
  return task;
}

TEST(HistoryEvents, ASubmissionIsOneEventOfItsFirstTask) {
  const store::StoredEvent one = SubmittedEvent(core::TaskId{7}, 1, {.user = "ann"}, kNow);
  EXPECT_EQ(one.kind, store::EventKind::kSubmitted);
  EXPECT_EQ(one.when, kNow);
  EXPECT_EQ(one.task, core::TaskId{7});
  EXPECT_EQ(one.text, "by ann");
  const Submitter again{.user = "ann", .remark = "again"};
  EXPECT_EQ(SubmittedEvent(core::TaskId{7}, 3, again, kNow).text,
            "by ann, again, the first of 3 tasks");
}

TEST(HistoryEvents, OmitsStatesThatEverySubmissionPassesThrough) {
  using enum core::TaskState;
  EXPECT_FALSE(StateEvent(Task(kSubmitted, 0), {}, kNow));
  EXPECT_FALSE(StateEvent(Task(kEstimating, 0), {}, kNow));
  EXPECT_FALSE(StateEvent(Task(kQueued, 0), {}, kNow));
  const auto back = StateEvent(Task(kQueued, 1), {}, kNow);
  ASSERT_TRUE(back) << "it was requeued";
  EXPECT_EQ(back->what, "queued");
  EXPECT_EQ(back->text, "OutOfMemory: it wanted more");
}

TEST(HistoryEvents, AnEndHasTheTimeAtWhichTheTaskEnded) {
  core::TaskRecord task = Task(core::TaskState::kSucceeded, 1);
  task.ended = kNow - base::Duration(3'000);
  EXPECT_EQ(StateEvent(task, {}, kNow)->when, *task.ended) << "carmad was down then";
}

TEST(HistoryEvents, ALaunchShowsWhyTheGpuWasChosen) {
  core::TaskRecord task = Task(core::TaskState::kLaunching, 1);
  task.attempt.Edit().placement_reason = {core::ReasonCode::kNone, "first that fits"};
  EXPECT_EQ(StateEvent(task, {"GPU-a"}, kNow)->text, "first that fits");
  EXPECT_EQ(StateEvent(task, {"GPU-a"}, kNow)->gpu_uuid, "GPU-a");
}

TEST(HistoryEvents, NamesSeveralGpusIfThereIsNoOtherText) {
  core::TaskRecord task = Task(core::TaskState::kRunning, 1);
  task.reason = {};
  task.attempt.Edit().placement = {{core::GpuIndex{0}, 100}, {core::GpuIndex{2}, 100}};
  EXPECT_EQ(StateEvent(task, {"GPU-a", "GPU-c"}, kNow)->text, "GPUs 0,2");
  EXPECT_EQ(StateEvent(task, {"GPU-a"}, kNow)->text, "");
}

TEST(HistoryEvents, ClosingAGpuHasAReasonAndOpeningHasNone) {
  const store::StoredEvent closed = DrainEvent("GPU-a", "fan noise", kNow);
  EXPECT_EQ(closed.kind, store::EventKind::kDrain);
  EXPECT_EQ(closed.what, "drain");
  EXPECT_EQ(closed.text, "fan noise");
  const store::StoredEvent opened = DrainEvent("GPU-a", std::nullopt, kNow);
  EXPECT_EQ(opened.kind, store::EventKind::kResume);
  EXPECT_EQ(opened.what, "resume");
}

}  // namespace
}  // namespace carma::daemon

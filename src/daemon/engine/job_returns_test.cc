// Tests which Slurm jobs are requeued after their task has ended.
#include "daemon/engine/job_returns.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::daemon {
namespace {

using core::ReasonCode;
using core::TaskState;

core::TaskRecord EndedJob(TaskState state, ReasonCode why, int code = 0) {
  core::TaskRecord record;
  record.id = core::TaskId{1};
  record.state = state;
  record.reason = {why, ""};
  core::ExitInfo exit;
  exit.kind = core::ExitKind::kFailed;
  exit.code = code;
  record.exit = exit;
  return record;
}

TEST(JobReturns, RequeuesAJobThatHadToLeaveItsGpus) {
  core::SlotRules slots;
  slots.exit_codes = {85};
  const JobOfTask of{.job = 12, .retries = 0};
  const core::TaskRecord ended = EndedJob(TaskState::kCancelled, ReasonCode::kDraining);
  EXPECT_TRUE(MayComeBack(ended, slots));
  const auto back = PlanReturn(ended, of, {}, {}, slots);
  ASSERT_TRUE(back) << "only failures use up retries";
  EXPECT_EQ(back->claim_gib, 0);

  core::TaskRecord saved = EndedJob(TaskState::kFailed, ReasonCode::kNone, 85);
  EXPECT_FALSE(MayComeBack(saved, slots)) << "it was not asked to checkpoint";
  saved.attempt.Edit().slot_notice = base::FromMs(1);
  EXPECT_TRUE(MayComeBack(saved, slots));
  core::TaskRecord failed = EndedJob(TaskState::kFailed, ReasonCode::kNone, 1);
  failed.attempt.Edit().slot_notice = base::FromMs(1);
  EXPECT_FALSE(MayComeBack(failed, slots));
  EXPECT_FALSE(MayComeBack(EndedJob(TaskState::kCancelled, ReasonCode::kCancelledByUser), slots));
}

}  // namespace
}  // namespace carma::daemon

#include "estimate/lesson.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::estimate {
namespace {

using base::Duration;

core::TaskRecord Ended(core::TaskState state, core::ExitKind kind, std::int64_t peak_mib) {
  core::TaskRecord record;
  record.id = core::TaskId{7};
  record.state = state;
  record.exit.Edit().kind = kind;
  record.peak_mib = peak_mib;
  return record;
}

TEST(Teaches, AcceptsWatchedFullRunsAndRunsOutOfMemory) {
  using core::ExitKind;
  using core::TaskState;
  const struct {
    const char* why;
    core::TaskRecord record;
    Duration watched;
    bool teaches;
  } cases[] = {
      {"a full run", Ended(TaskState::kSucceeded, ExitKind::kSuccess, 5'000), kLeastWatched, true},
      {"too short to have reached its peak",
       Ended(TaskState::kSucceeded, ExitKind::kSuccess, 5'000), kLeastWatched - Duration{1}, false},
      {"at its time limit", Ended(TaskState::kTimedOut, ExitKind::kFailed, 5'000), kLeastWatched,
       true},
      {"nothing was observed", Ended(TaskState::kSucceeded, ExitKind::kSuccess, 0), kLeastWatched,
       false},
      {"failed", Ended(TaskState::kFailed, ExitKind::kFailed, 5'000), kLeastWatched, false},
      {"stopped and requeued", Ended(TaskState::kQueued, ExitKind::kFailed, 5'000), kLeastWatched,
       false},
      {"ran out of memory immediately", Ended(TaskState::kQueued, ExitKind::kOutOfMemory, 5'000),
       Duration{0}, true},
  };
  for (const auto& each : cases)
    EXPECT_EQ(Teaches(each.record, each.watched), each.teaches) << each.why;
}

TEST(LessonOf, ContainsPromisedAndMeasuredMemory) {
  core::TaskRecord record = Ended(core::TaskState::kQueued, core::ExitKind::kOutOfMemory, 5'000);
  record.request.Edit().uid = 1000;
  record.estimate = core::Estimate{4'500, "structural", 4'000};
  task::TaskSpec spec;
  spec.command = {"python", "train.py"};
  const task::Observation lesson = LessonOf(record, spec, {.gpu_type = "A100"}, "fingerprint",
                                            task::FormulaSplit{1'700, 2'300}, base::FromMs(9));
  EXPECT_EQ(lesson.task, record.id);
  EXPECT_EQ(lesson.when, base::FromMs(9));
  EXPECT_EQ(lesson.method, "structural");
  EXPECT_EQ(lesson.predicted_mib, 4'000);
  EXPECT_EQ(lesson.promised_mib, 4'500);
  EXPECT_EQ(lesson.measured_mib, 5'000);
  EXPECT_TRUE(lesson.ran_out);
  EXPECT_EQ(lesson.formula->rest_mib, 2'300);
  EXPECT_TRUE(lesson.signature.starts_with("1000-"));
  EXPECT_TRUE(lesson.kin.starts_with("1000-"));
}

TEST(RanOnOf, TakesThePaceOfTheSlowestGpu) {
  const std::vector<core::GpuInfo> gpus{{.type = "H100", .speed = 2.6},
                                        {.type = "A100", .speed = 1.3},
                                        {.type = "V100", .speed = 0.65}};
  const std::vector<core::GpuIndex> its{core::GpuIndex{0}, core::GpuIndex{2}};
  const RanOn where = RanOnOf(its, gpus);
  EXPECT_EQ(where.gpu_type, "H100");
  EXPECT_DOUBLE_EQ(where.pace, 0.25);
}

TEST(LessonOf, OnlyAWholeRunHasARunTime) {
  core::TaskRecord record = Ended(core::TaskState::kSucceeded, core::ExitKind::kSuccess, 5'000);
  record.seen =
      core::Profile{.sm_active = 0.4, .cpus = 6, .others_share = 0.7, .alone = Duration{600'000}};
  task::Observation lesson = LessonOf(record, {}, {.gpu_type = "A100"}, "", {}, base::FromMs(9));
  EXPECT_EQ(lesson.cpus, 6);
  EXPECT_EQ(lesson.others_share, 0.7);
  EXPECT_EQ(lesson.sm_active, 0.4);
  EXPECT_EQ(lesson.alone, Duration{600'000});
  lesson = LessonOf(record, {}, {.gpu_type = "V100", .pace = 0.5}, "", {}, base::FromMs(9));
  EXPECT_EQ(lesson.alone, Duration{1'200'000}) << "there";
  record.state = core::TaskState::kTimedOut;
  lesson = LessonOf(record, {}, {.gpu_type = "A100"}, "", {}, base::FromMs(9));
  EXPECT_EQ(lesson.sm_active, 0.4);
  EXPECT_FALSE(lesson.alone);
}

}  // namespace
}  // namespace carma::estimate

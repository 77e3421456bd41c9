#include "core/scheduler/trial.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/scheduler/scheduler_fixture.h"

namespace carma::core {
namespace {

TEST_F(SchedulerTest, ATrialCountsOnlyTasksThatCanGoBeforeIt) {
  const Time now = At(2);
  const auto verdict = [&](std::int64_t priority = 0) {
    return *Try(*scheduler_, {.priority = priority}, Estimate{1'000, "given"}, now).reason.text;
  };
  PolicyConfig config;
  config.settle = false;
  config.sm_cap.reset();
  Begin(config);
  const auto submit = [&](std::uint64_t id, TaskRequest request, std::int64_t mib) {
    Handle(2, Submitted(id, std::move(request)));
    Handle(2, Estimated(id, mib));
  };
  // The first task is running. The other tasks wait for reasons that do not apply to a new task.
  submit(1, {.array = TaskId{1}, .array_limit = 1}, 1'000);
  submit(2, {.begin = At(100)}, 1'000);
  submit(3, {.dependencies = {{TaskId{1}, DependencyKind::kAfterAny, std::nullopt}}}, 1'000);
  submit(4, {.array = TaskId{1}, .array_limit = 1}, 1'000);
  submit(5, {.held = true}, 1'000);
  submit(6, {}, 2'000);
  Handle(2, LaunchFailed{TaskId{6}, 1, "no memory for fork", true});
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{6}, At(2)).code, ReasonCode::kBackoff);
  EXPECT_EQ(verdict(), "");
  // A task that does not fit blocks the tasks behind it, but not tasks of higher priority.
  submit(7, {}, 39'000);
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{7}, At(2)).code, ReasonCode::kGpuMemory);
  EXPECT_EQ(verdict(), "1 task is ahead of it");
  EXPECT_EQ(verdict(1), "");
}

TEST_F(SchedulerTest, ATrialGivesTheReasonForWhichTheTaskWouldWait) {
  const auto verdict = [&](const TaskRequest& request, std::int64_t mib) {
    return Try(*scheduler_, request, Estimate{mib, "given"}, At(2)).reason;
  };
  PolicyConfig config;
  config.settle = false;
  config.sm_cap.reset();
  config.backfill = 10;
  Begin(config, 2);
  Run(1);
  Handle(2, Submitted(2, {.gpus = 2}));
  Handle(2, Estimated(2, 39'000));
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{2}, At(2)).code, ReasonCode::kGpuMemory);
  EXPECT_EQ(verdict({}, 1'000).code, ReasonCode::kNone)
      << "it is considered together with the first";
  Handle(2, DrainRequested{GpuIndex{0}, "test"});
  EXPECT_EQ(verdict({.on_gpus = {"0"}}, 1'000).code, ReasonCode::kDraining) << "not kGpuChoice";
  EXPECT_EQ(*verdict({.begin = At(100)}, 1'000).text,
            "May not start before " + base::FormatTimeIso(At(100)) + ".");
}

TEST_F(SchedulerTest, ATrialIgnoresInstancesForSeveralGpusAndAddsUpShares) {
  PolicyConfig config;
  config.settle = false;
  scheduler_ = std::make_unique<Scheduler>(config);
  std::vector<GpuInfo> gpus = Gpus(3);
  gpus[2].mig = true;
  scheduler_->HandleAll(
      At(0), {GpusDiscovered{gpus}, Sampled(0, At(0)), Sampled(1, At(0)), Sampled(2, At(0))});
  const auto fit = [&](TaskRequest request) { return Try(*scheduler_, request, {}, At(1)); };
  EXPECT_EQ(fit({.gpus = 2}).fit, Fit::kFits);
  EXPECT_EQ(fit({.gpus = 3}).fit, Fit::kNever);
  EXPECT_EQ(fit({.gpus = 3}).reason.code, ReasonCode::kMigInstance);
  EXPECT_EQ(fit({.gpus = 3}).reason.text,
            "The task asks for 3 GPUs; it may use 2 whole GPUs and 1 MIG instance, which cannot be "
            "combined with other GPUs.");
  EXPECT_EQ(fit({.gpus = 2, .on_gpus = {"1", "2"}}).reason.text,
            "The task asks for 2 GPUs; it may use 1 whole GPU and 1 MIG instance, which cannot be "
            "combined with other GPUs.");
  Handle(1, Submitted(1, {.gpus = 2, .sm_share = 0.6}));
  Handle(1, Estimated(1, 1'000));
  EXPECT_EQ(fit({.gpus = 2, .sm_share = 0.4}).fit, Fit::kFits);
  EXPECT_EQ(fit({.gpus = 2, .sm_share = 0.5}).fit, Fit::kNotNow);
  EXPECT_EQ(fit({.gpus = 2}).fit, Fit::kFits);
  EXPECT_EQ(fit({.gpus = 1, .sm_share = 0.5}).fit, Fit::kFits);  // it fits on the instance
}

TEST_F(SchedulerTest, ATrialAppliesTheUsersLimits) {
  PolicyConfig config;
  config.limits = {*ParseLimitRule("user=* gpus=1")};
  scheduler_ = std::make_unique<Scheduler>(config);
  scheduler_->HandleAll(At(0), {GpusDiscovered{Gpus(2)}, Sampled(0, At(0)), Sampled(1, At(0))});
  const auto fit = [&](TaskRequest request) { return Try(*scheduler_, request, {}, At(1)); };
  EXPECT_EQ(fit({.gpus = 1, .user = "ada"}).fit, Fit::kFits);
  EXPECT_EQ(fit({.gpus = 2, .user = "ada"}).fit, Fit::kNever);
  EXPECT_EQ(fit({.gpus = 2, .user = "ada"}).reason.code, ReasonCode::kLimit);
  EXPECT_EQ(fit({.user = "ada", .account = "vision"}).fit, Fit::kNever);
  EXPECT_EQ(fit({.user = "ada", .qos = "urgent"}).fit, Fit::kNever);
}

TEST_F(SchedulerTest, ATrialWaitsForALimitOrAClosedServerAsATaskDoes) {
  const TaskRequest wide{.gpus = 2, .user = "ada"}, none{.gpus = 0, .user = "ada"};
  const auto verdict = [&](const TaskRequest& request) {
    return Try(*scheduler_, request, {}, At(2)).reason;
  };
  const auto submit = [&](std::uint64_t id, const TaskRequest& request) {
    Handle(2, Submitted(id, request));
    Handle(2, Estimated(id, 1'000));
  };
  const auto expect_same = [&](std::uint64_t id, const TaskRequest& request, ReasonCode code) {
    const Reason tried = verdict(request);
    EXPECT_EQ(tried.code, code);
    submit(id, request);
    EXPECT_EQ(tried, scheduler_->ReasonFor(TaskId{id}, At(2)));
  };
  PolicyConfig config;
  config.settle = false;
  config.limits = {*ParseLimitRule("user=* gpus=2"), *ParseLimitRule("user=eve running=1")};
  Begin(config, 4);
  submit(1, {.user = "ada"});
  submit(2, {.gpus = 0, .user = "eve"});
  expect_same(3, {.user = "eve"}, ReasonCode::kLimit);
  expect_same(4, wide, ReasonCode::kLimit);
  EXPECT_EQ(verdict({.user = "ada"}).code, ReasonCode::kLimit) << "behind the task that waits";
  EXPECT_EQ(verdict({.priority = 1, .user = "ada"}).code, ReasonCode::kNone);
  EXPECT_EQ(verdict(none).code, ReasonCode::kNone);
  Handle(2, ServerClosed{"closed by root", At(100)});
  expect_same(5, none, ReasonCode::kDraining);
}

}  // namespace
}  // namespace carma::core

// Tests the reasons shown for waiting tasks in cases where the exact wording matters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "core/scheduler/scheduler.h"
#include "core/values/reason_line.h"

namespace carma::core {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Duration kOneMinute{60'000};

// A server whose only GPU is taken. The second task has been waiting for it since the first minute.
class KeptGpus : public ::testing::Test {
 protected:
  void Begin(int backfill, int tasks_per_gpu = 1) {
    PolicyConfig config;
    config.mapper = "first-fit";
    config.recovery = RecoveryMode::kExclusive;
    config.settle = false;
    config.sm_cap.reset();
    config.max_tasks_per_gpu = tasks_per_gpu;
    config.backfill = backfill;
    config.pass_limit = 10 * kOneMinute;
    scheduler_ = std::make_unique<Scheduler>(config);
    Tell(Time{}, GpusDiscovered{{{.uuid = "GPU-0", .type = "A100", .total_mib = 40'000}}});
    Submit(Time{}, 1);
    Submit(Time{kOneMinute}, 2);
  }
  void Submit(Time when, std::uint64_t id, TaskRequest request = {}) {
    Look(when);
    Tell(when, TaskSubmitted{TaskId{id}, std::move(request)});
    Tell(when, EstimateReady{TaskId{id}, Estimate{1'000, "given"}});
  }
  void Look(Time when) {
    GpuSample sample;
    sample.taken = when;
    sample.window_from = when - kOneMinute;
    sample.sm_active = 0.1;
    Tell(when, GpuSampled{GpuIndex{0}, sample});
  }
  void Tell(Time when, const Event& event) { scheduler_->Handle(when, event); }
  std::string Reason(std::uint64_t id, Time now) const {
    return *scheduler_->ReasonFor(TaskId{id}, now).text;
  }

  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(KeptGpus, ALaunchThatHangsHasAReason) {
  Begin(9);
  const auto reason = [this](int seconds) { return Reason(1, Time{seconds * Duration{1'000}}); };
  EXPECT_EQ(reason(29), "");
  EXPECT_EQ(reason(40),
            "Has not started in 40 s; its folders or the user database may not respond.");
  Tell(Time{kOneMinute}, TaskStarted{TaskId{1}, 1});
  EXPECT_EQ(reason(61), "");
}

TEST_F(KeptGpus, AreAnnouncedInTheReasonOfTheHeadAndThenNamed) {
  Begin(9);
  EXPECT_THAT(Reason(2, Time{kOneMinute}),
              EndsWith(" GPUs will be kept for it starting at 1970-01-01T00:11:00.000Z."));
  Look(Time{11 * kOneMinute});
  EXPECT_THAT(Reason(2, Time{11 * kOneMinute}), EndsWith(" GPU 0 is kept for it."));
  EXPECT_THAT(Reason(2, Time{11 * kOneMinute}), Not(HasSubstr("started ahead of it")));
  Submit(Time{12 * kOneMinute}, 3);
  EXPECT_THAT(Reason(3, Time{12 * kOneMinute}), Not(HasSubstr("kept for it")));
}

TEST_F(KeptGpus, NoneAreKeptIfNoTaskMayPass) {
  Begin(1);
  EXPECT_THAT(Reason(2, Time{kOneMinute}), Not(HasSubstr("kept")));
  Look(Time{11 * kOneMinute});
  EXPECT_THAT(Reason(2, Time{11 * kOneMinute}), Not(HasSubstr("kept")));
}

TEST_F(KeptGpus, AreNotAnnouncedIfEveryGpuThatCouldBeKeptIsDrained) {
  Begin(9);
  Tell(Time{2 * kOneMinute}, DrainRequested{GpuIndex{0}, "repair"});
  EXPECT_THAT(Reason(2, Time{2 * kOneMinute}), Not(HasSubstr("kept")));
}

TEST_F(KeptGpus, AreNotAnnouncedWhileTheyAreKeptForATaskInRecovery) {
  Begin(9, 2);
  Tell(Time{2 * kOneMinute}, TaskExited{TaskId{1}, 1, {.kind = ExitKind::kOutOfMemory}});
  Submit(Time{5 * kOneMinute}, 3, {.exclusive = true});
  EXPECT_THAT(Reason(3, Time{5 * kOneMinute}), HasSubstr("kept for it starting at"));
  Look(Time{12 * kOneMinute});
  EXPECT_THAT(Reason(1, Time{12 * kOneMinute}), HasSubstr("GPU 0 is kept for it"));
  EXPECT_THAT(Reason(3, Time{12 * kOneMinute}), Not(HasSubstr("kept for it")));
}

TEST_F(KeptGpus, AreNotAnnouncedIfTheyWillBeReservedByThen) {
  Begin(9);
  EXPECT_THAT(Reason(2, Time{kOneMinute}), HasSubstr("kept for it starting at"));
  // The reservation begins less than policy.booking_lead (4 h) after the hold would begin, but more
  // than 4 h from now.
  const Time from{std::chrono::hours(4) + 5 * kOneMinute};
  Tell(Time{kOneMinute}, ReservationsChanged{{{{.users = {"ada"}}, from, from + kOneMinute}}});
  EXPECT_THAT(Reason(2, Time{kOneMinute}), Not(HasSubstr("kept for it")));
}

TEST(PassedHead, KeepsItsCountIfTheHeadsOfTwoUsersAlternate) {
  PolicyConfig config;
  config.mapper = "first-fit";
  config.order = QueueOrder::kFair;
  config.backfill = 9;
  config.margin_mib = 0;
  config.settle = config.users_take_turns = false;
  config.sm_cap.reset();
  Scheduler scheduler(config);
  scheduler.Handle(Time{}, GpusDiscovered{{{.uuid = "GPU-0", .total_mib = 40'000}}});
  scheduler.Handle(Time{}, GpuSampled{GpuIndex{0}, {.taken = Time{}, .sm_active = 0.1}});
  const auto submit = [&](std::uint64_t id, std::uint32_t uid, std::int64_t mib) {
    const Time when{Duration{static_cast<std::int64_t>(id)}};
    scheduler.Handle(when, TaskSubmitted{TaskId{id}, TaskRequest{.uid = uid}});
    scheduler.Handle(when, EstimateReady{TaskId{id}, Estimate{mib, "given"}});
    const std::vector<TaskId> line = scheduler.InLine(1).with_gpus;
    return line.empty() ? TaskId{} : line.front();
  };
  EXPECT_EQ(submit(1, 1, 5'000), TaskId{});
  EXPECT_EQ(submit(2, 2, 40'000), TaskId{2});
  EXPECT_EQ(submit(3, 3, 40'000), TaskId{2});
  EXPECT_EQ(submit(4, 2, 1'000), TaskId{3}) << "the second user now uses more";
  EXPECT_EQ(submit(5, 3, 30'000), TaskId{2});
  EXPECT_THAT(*scheduler.ReasonFor(TaskId{2}, Time{Duration{5}}).text,
              HasSubstr("2 tasks started ahead of it"));
}

TEST(WarmUp, IsExplainedOnceForAllGpus) {
  PolicyConfig config;
  config.mapper = "first-fit";
  config.min_gain.reset();
  Scheduler scheduler(config);
  GpusDiscovered found;
  for (const char* uuid : {"GPU-0", "GPU-1"})
    found.gpus.push_back({.uuid = uuid, .type = "A100", .total_mib = 40'000});
  scheduler.Handle(Time{}, found);
  const auto sample = [&](Time when) {
    for (const std::uint32_t gpu : {0U, 1U}) {
      GpuSample now;
      now.taken = when;
      now.window_from = when - kOneMinute;
      now.sm_active = 0.1;
      scheduler.Handle(when, GpuSampled{GpuIndex{gpu}, now});
    }
  };
  sample(Time{kOneMinute});
  for (const std::uint64_t id : {1, 2, 3}) {
    const Time when{kOneMinute + Duration{static_cast<std::int64_t>(id)}};
    scheduler.Handle(when, TaskSubmitted{TaskId{id}, TaskRequest{}});
    scheduler.Handle(when, EstimateReady{TaskId{id}, Estimate{1'000, "given"}});
  }
  const Time later{kOneMinute + Duration{2'000}};
  sample(later);
  ASSERT_EQ(scheduler.ReasonFor(TaskId{3}, later).code, ReasonCode::kWarmUp);
  const std::string text = *scheduler.ReasonFor(TaskId{3}, later).text;
  EXPECT_THAT(text, HasSubstr("Samples from each of GPUs 0-1 do not yet include the task most "
                              "recently started there; they will by "));
  EXPECT_THAT(text.substr(text.find("latest")), Not(HasSubstr("samples"))) << text;
}

// The task's own output must stay hidden even if the reason gets another code later. For example, a
// back-off replaces the failure's code.
TEST(PublicReason, NeverContainsWhatATaskWroteToStderr) {
  using enum ExitKind;
  for (const bool always_oom : {false, true}) {
    for (const ExitKind kind : {kFailed, kOutOfMemory, kGpuFault, kVictim}) {
      PolicyConfig config;
      config.mapper = "first-fit";
      config.every_failure_is_oom = always_oom;
      config.recovery_backoff = kOneMinute;
      config.settle = false;
      Scheduler scheduler(config);
      const TaskId id{1};
      scheduler.Handle(Time{}, GpusDiscovered{{{.uuid = "GPU-0", .total_mib = 40'000}}});
      scheduler.Handle(Time{}, GpuSampled{GpuIndex{0}, {.taken = Time{}}});
      scheduler.Handle(Time{}, TaskSubmitted{id, TaskRequest{}});
      scheduler.Handle(Time{}, EstimateReady{id, Estimate{1'000, "given"}});
      ASSERT_EQ(scheduler.Find(id)->state, TaskState::kLaunching);
      scheduler.Handle(Time{}, TaskStarted{id, 1});
      scheduler.Handle(Time{}, TaskExited{id, 1, {kind, 1, 0, "exit code 1: a (b) secret"}});
      for (const Duration later : {Duration{0}, kOneMinute / 2, 10 * kOneMinute}) {
        const core::Reason why = scheduler.ReasonFor(id, Time{later});
        EXPECT_THAT(PublicText(why.code, *why.text), Not(HasSubstr("secret")))
            << ReasonName(why.code) << " " << *why.text;
      }
    }
  }
}

}  // namespace
}  // namespace carma::core

// Tests what scenario files cannot express: batches, old attempts, wake-ups, time that goes back,
// and random events.
#include "core/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "base/text.h"
#include "core/scheduler/published_rules.h"
#include "core/scheduler/trial.h"

namespace carma::core {
namespace {

Time At(double seconds) {
  return base::FromMs(static_cast<std::int64_t>(seconds * 1000));
}

std::vector<GpuInfo> Gpus(int count, std::int64_t total_mib = 40'000) {
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i)
    gpus.push_back({.uuid = "GPU-" + std::to_string(i), .type = "A", .total_mib = total_mib});
  return gpus;
}

GpuSampled Sampled(std::uint32_t gpu, Time taken) {
  GpuSample sample;
  sample.taken = taken;
  sample.window_from = taken - Duration{1'000};
  sample.sm_active = 0.1;
  return {GpuIndex{gpu}, sample};
}

TaskSubmitted Submitted(std::uint64_t id, TaskRequest request = {}) {
  return {TaskId{id}, std::move(request)};
}
EstimateReady Estimated(std::uint64_t id, std::int64_t mib) {
  return {TaskId{id}, Estimate{mib, "given"}};
}

template <class T>
std::vector<T> Of(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const T* each = std::get_if<T>(&action)) found.push_back(*each);
  }
  return found;
}

// A scheduler with `count` healthy, empty GPUs at time 0.
class SchedulerTest : public ::testing::Test {
 protected:
  void Begin(PolicyConfig config = {}, int count = 1) {
    scheduler_ = std::make_unique<Scheduler>(config);
    std::vector<Event> events{GpusDiscovered{Gpus(count)}};
    for (int i = 0; i < count; ++i)
      events.emplace_back(Sampled(static_cast<std::uint32_t>(i), At(0)));
    scheduler_->HandleAll(At(0), events);
  }
  std::vector<Action> Handle(double seconds, const Event& event) {
    std::vector<Action> actions = scheduler_->Handle(At(seconds), event);
    EXPECT_EQ(scheduler_->CheckBooks(), std::nullopt);
    return actions;
  }
  std::vector<Action> Run(std::uint64_t id, double seconds = 0) {
    Handle(seconds, Submitted(id));
    return Handle(seconds, Estimated(id, 1'000));
  }
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, TheRecordIsStoredBeforeTheActionsThatFollow) {
  Begin();
  const std::vector<Action> submitted = Handle(0, Submitted(1));
  ASSERT_EQ(submitted.size(), 2U);
  EXPECT_EQ(std::get<TaskChanged>(submitted[0]).record.state, TaskState::kEstimating);
  EXPECT_EQ(std::get<RequestEstimate>(submitted[1]).id, TaskId{1});
  const std::vector<Action> estimated = Handle(0, Estimated(1, 1'000));
  ASSERT_EQ(estimated.size(), 3U);
  EXPECT_EQ(std::get<TaskChanged>(estimated[0]).record.state, TaskState::kQueued);
  EXPECT_EQ(std::get<TaskChanged>(estimated[1]).record.state, TaskState::kLaunching);
  EXPECT_EQ(std::get<StartTask>(estimated[2]).attempt, 1);
}

TEST_F(SchedulerTest, AReservationNamesTheTasksThatMayStillRunWhenItBegins) {
  Begin();
  Handle(0, Submitted(1, {.time_limit = Duration{3'600'000}}));
  Handle(0, Estimated(1, 1'000));
  Handle(1, TaskStarted{TaskId{1}, 1});
  const auto others = [&](double from_s) {
    ReservedPeriod period{.booking = {.id = ReservationId{1}, .users = {"eve"}},
                          .from = At(from_s),
                          .to = At(20'000)};
    Handle(2, ReservationsChanged{{period}});
    return scheduler_->ReservationsNow().at(0).others;
  };
  EXPECT_EQ(others(3'600), std::vector{TaskId{1}});
  EXPECT_TRUE(others(3'601).empty()) << "its time limit ends it before";
}

TEST_F(SchedulerTest, ATaskCountsAsForeignOnAGpuThatItWasNotGiven) {
  PolicyConfig config;
  config.mapper = "exclusive";
  Begin(config, 2);
  Run(1);
  GpuSampled astray = Sampled(1, At(1));
  astray.sample.tasks_mib = {{TaskId{1}, 3'000}};
  astray.sample.used_mib = 3'000;
  Handle(1, astray);
  const GpuView view = scheduler_->Gpus(At(1))[1];
  EXPECT_EQ(view.foreign_processes, 1);
  EXPECT_EQ(view.foreign_mib, 3'000);
  EXPECT_TRUE(Of<StartTask>(Run(2, 1)).empty()) << "the GPU is not idle";
  EXPECT_EQ(Of<StartTask>(Handle(2, Sampled(1, At(2)))).size(), 1U) << "now it is";
}

TEST_F(SchedulerTest, EventsOfUnknownTasksAndOldAttemptsChangeNothing) {
  Begin();
  Run(1);
  Handle(1, TaskStarted{TaskId{1}, 1});
  for (const Event& event : std::initializer_list<Event>{TaskExited{TaskId{1}, 2, {}},
                                                         TaskExited{TaskId{1}, 0, {}},
                                                         TaskExited{TaskId{9}, 1, {}},
                                                         LaunchFailed{TaskId{1}, 0, "", true},
                                                         TaskStarted{TaskId{1}, 7},
                                                         TaskStarted{TaskId{1}, 1},
                                                         EstimateReady{TaskId{1}, {}},
                                                         CancelRequested{TaskId{9}, "a"},
                                                         HoldRequested{TaskId{9}},
                                                         ReleaseRequested{TaskId{1}},
                                                         PriorityChanged{TaskId{9}, 1},
                                                         GpuSampled{GpuIndex{7}, {}},
                                                         DrainRequested{GpuIndex{7}, ""},
                                                         TaskSubmitted{TaskId{1}, {}},
                                                         SharingChosen{TaskId{9}, 1, {}},
                                                         SharingChosen{TaskId{1}, 2, {}},
                                                         TaskIdle{TaskId{9}, 1, At(1)},
                                                         TaskIdle{TaskId{1}, 2, At(1)},
                                                         TaskIdle{TaskId{1}, 1, std::nullopt},
                                                         ResumeRequested{GpuIndex{7}},
                                                         GpusDiscovered{{}},
                                                         WakeUp{}}) {
    EXPECT_TRUE(Handle(2, event).empty());
  }
  EXPECT_EQ(scheduler_->Find(TaskId{1})->state, TaskState::kRunning);
}

TEST_F(SchedulerTest, ATaskThatSavesAsSoonAsItHasStartedPauses) {
  Begin();
  TaskRequest request;
  request.time_limit = Duration{5'000};
  request.signal_before = Duration{4'000};
  Handle(0, Submitted(1, request));
  Handle(0, Estimated(1, 1'000));
  for (int attempt = 1; attempt <= 2; ++attempt) {
    const double begin = attempt * 10.0;
    Handle(begin, Sampled(0, At(begin)));
    ASSERT_EQ(scheduler_->Find(TaskId{1})->attempt->number, attempt);
    Handle(begin, TaskStarted{TaskId{1}, attempt});
    EXPECT_EQ(Of<WarnTask>(Handle(begin + 2, WakeUp{})).size(), 1U);
    Handle(begin + 3, TaskExited{TaskId{1}, attempt, {.kind = ExitKind::kFailed, .code = 85}});
  }
  const TaskRecord* task = scheduler_->Find(TaskId{1});
  EXPECT_EQ(task->checkpoints, 2) << "the first requeue has no pause";
  EXPECT_EQ(task->state, TaskState::kQueued);
  EXPECT_GT(*task->not_before, At(23));
}

TEST_F(SchedulerTest, StartsInterruptedByTheDaemonsEndAreNotFailures) {
  PolicyConfig config;
  config.max_launch_failures = 0;
  Begin(config);
  Run(1);
  for (int attempt = 1; attempt <= 5; ++attempt) {
    const LaunchFailed died{TaskId{1}, attempt, "", true, /*interrupted=*/true};
    EXPECT_EQ(Of<StartTask>(Handle(attempt, died)).size(), 1U);
  }
  EXPECT_EQ(scheduler_->Find(TaskId{1})->launch_failures, 0);
  Handle(9, LaunchFailed{TaskId{1}, 6, "no memory", true});
  EXPECT_EQ(scheduler_->Find(TaskId{1}), nullptr);
}

TEST_F(SchedulerTest, ABatchHasTheSameResultAsSingleEvents) {
  Begin({}, 2);
  std::vector<Event> batch;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    batch.emplace_back(Submitted(id));
    batch.emplace_back(Estimated(id, 1'000));
  }
  const std::vector<Action> together = scheduler_->HandleAll(At(0), batch);
  const auto tasks = scheduler_->Tasks();
  Begin({}, 2);
  std::vector<Action> apart;
  for (const Event& event : batch) {
    for (Action& action : Handle(0, event)) apart.push_back(std::move(action));
  }
  EXPECT_EQ(scheduler_->Tasks(), tasks);
  EXPECT_EQ(Of<StartTask>(together), Of<StartTask>(apart));
}

TEST_F(SchedulerTest, ThousandsOfDependentTasksEndInSeveralSteps) {
  constexpr std::uint64_t kMany = 2'500;
  Begin();
  Run(1);
  std::vector<Event> events;
  for (std::uint64_t id = 2; id < 2 + kMany; ++id) {
    TaskRequest request;
    request.dependencies = {{TaskId{1}, DependencyKind::kAfterOk, std::nullopt}};
    events.emplace_back(Submitted(id, request));
    events.emplace_back(Estimated(id, 1'000));
  }
  scheduler_->HandleAll(At(1), events);
  for (int go = 0; go < 3; ++go) Handle(1, WakeUp{});
  std::size_t goes = 0;
  std::vector<Action> actions = Handle(2, CancelRequested{TaskId{1}, "alice"});
  actions = Handle(3, TaskExited{TaskId{1}, 1, {.kind = ExitKind::kFailed}});
  while (!Of<WakeAt>(actions).empty()) {
    EXPECT_EQ(Of<WakeAt>(actions).front().when, At(3));
    EXPECT_LE(Of<TaskChanged>(actions).size(), 1'001U);
    ++goes;
    actions = Handle(3, WakeUp{});
  }
  EXPECT_EQ(goes, 2U);
  EXPECT_TRUE(scheduler_->Tasks().empty());
}

TEST_F(SchedulerTest, UnsortedTasksAreNotPassed) {
  Begin();
  std::vector<Event> events;
  for (std::uint64_t id = 1; id <= 1'500; ++id) {
    TaskRequest request;
    request.priority = id == 1'500 ? 1 : 0;
    events.emplace_back(Submitted(id, request));
    events.emplace_back(Estimated(id, 30'000));
  }
  const std::vector<Action> first = scheduler_->HandleAll(At(0), events);
  EXPECT_TRUE(Of<StartTask>(first).empty());
  const std::vector<StartTask> started = Of<StartTask>(Handle(0, WakeUp{}));
  ASSERT_EQ(started.size(), 1U);
  EXPECT_EQ(started[0].id, TaskId{1'500});
}

TEST_F(SchedulerTest, ADependencyThatEndsInTheSameBatchCounts) {
  Begin();
  Run(1);
  Handle(1, TaskStarted{TaskId{1}, 1});
  TaskRequest request;
  request.dependencies = {{TaskId{1}, DependencyKind::kAfterOk, std::nullopt}};
  scheduler_->HandleAll(At(2), {TaskExited{TaskId{1}, 1, {}}, Submitted(2, request)});
  const auto actions = Handle(2, Estimated(2, 1'000));
  EXPECT_EQ(Of<StartTask>(actions).size(), 1U);
}

TEST_F(SchedulerTest, ALongChainOfDependenciesIsCancelled) {
  Begin();
  Run(1);
  std::vector<Event> chain;
  constexpr std::uint64_t kLast = 20'000;
  for (std::uint64_t id = 2; id <= kLast; ++id) {
    TaskRequest request;
    request.dependencies = {{TaskId{id - 1}, DependencyKind::kAfterOk, std::nullopt}};
    chain.emplace_back(Submitted(id, request));
    chain.emplace_back(Estimated(id, 1'000));
  }
  scheduler_->HandleAll(At(1), chain);
  EXPECT_EQ(scheduler_->Tasks().size(), kLast);
  Handle(2, CancelRequested{TaskId{1}, "alice"});
  auto actions = Handle(3, TaskExited{TaskId{1}, 1, {.kind = ExitKind::kFailed, .signal = 15}});
  std::size_t ended = Of<TaskChanged>(actions).size();
  while (!Of<WakeAt>(actions).empty()) {
    actions = Handle(3, WakeUp{});
    ended += Of<TaskChanged>(actions).size();
  }
  EXPECT_EQ(ended, kLast);
  EXPECT_TRUE(scheduler_->Tasks().empty());
}

TEST_F(SchedulerTest, RequestsAWakeUpOnlyIfItChanges) {
  Begin();
  TaskRequest later;
  later.begin = At(100);
  Handle(0, Submitted(1, later));
  EXPECT_EQ(Of<WakeAt>(Handle(0, Estimated(1, 1))), std::vector<WakeAt>{{At(100)}});
  EXPECT_TRUE(Of<WakeAt>(Handle(1, Sampled(0, At(1)))).empty());
  later.begin = At(50);
  Handle(2, Submitted(2, later));
  EXPECT_EQ(Of<WakeAt>(Handle(2, Estimated(2, 1))), std::vector<WakeAt>{{At(50)}});
  EXPECT_EQ(Of<WakeAt>(Handle(3, CancelRequested{TaskId{2}, "a"})), std::vector<WakeAt>{{At(100)}});
  EXPECT_TRUE(Of<WakeAt>(Handle(4, CancelRequested{TaskId{1}, "a"})).empty());
}

TEST_F(SchedulerTest, AHigherPriorityDoesNotMoveOtherTasks) {
  PolicyConfig config;
  config.mapper = "exclusive";
  Begin(config);
  for (std::uint64_t id = 1; id <= 4; ++id) Run(id);
  EXPECT_EQ(scheduler_->Explain(TaskId{4}, At(0))->ahead, 2U);
  Handle(1, PriorityChanged{TaskId{4}, 10});
  EXPECT_EQ(scheduler_->Explain(TaskId{4}, At(1))->ahead, 0U);
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{2}, At(1)).code, ReasonCode::kPriority);
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{4}, At(1)).code, ReasonCode::kExclusive);
  EXPECT_EQ(scheduler_->Explain(TaskId{99}, At(1)), std::nullopt);
}

TEST_F(SchedulerTest, ARestoredTaskThatNoLongerFitsDoesNotBlockOthers) {
  Begin();
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kQueued;
  record.request.Edit().gpus = 4;
  Handle(0, TaskRestored{record});
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{1}, At(0)).code, ReasonCode::kNeverFits);
  EXPECT_EQ(Of<StartTask>(Run(2)).size(), 1U);
}

TEST_F(SchedulerTest, ThePredictionOfARestoredTaskIsLimitedToTheCurrentGpus) {
  Begin();
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kQueued;
  Estimate estimate{.peak_mib = 50'000};
  estimate.predicted_mib = 45'000;
  record.estimate = std::optional(estimate);
  const std::vector<Action> restored = Handle(0, TaskRestored{record});
  ASSERT_EQ(Of<StartTask>(restored).size(), 1U);
  EXPECT_EQ(Of<StartTask>(restored)[0].placement[0].claim_mib,
            scheduler_->Gpus(At(0))[0].total_mib);
}

TEST_F(SchedulerTest, ARequeuedFinalTaskIsEstimatedAgain) {
  Begin();
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kSubmitted;
  record.reason = {ReasonCode::kRequeuedByUser, "Sent back."};
  record.attempt.Edit().number = 4;
  record.peak_mib = 9'000;
  const std::vector<Action> restored = Handle(0, TaskRestored{record});
  EXPECT_EQ(Of<RequestEstimate>(restored).size(), 1U);
  EXPECT_TRUE(Of<StartTask>(restored).empty());
  const std::vector<Action> estimated = Handle(1, Estimated(1, 12'000));
  EXPECT_EQ(Of<TaskChanged>(estimated).front().record.reason.code, ReasonCode::kRequeuedByUser);
  ASSERT_EQ(Of<StartTask>(estimated).size(), 1U);
  EXPECT_EQ(Of<StartTask>(estimated)[0].attempt, 5);
  EXPECT_EQ(Of<StartTask>(estimated)[0].placement[0].claim_mib, 12'000);
  // The task may have become too large for every GPU.
  record.id = TaskId{2};
  Handle(2, TaskRestored{record});
  EXPECT_EQ(Of<TaskChanged>(Handle(3, Estimated(2, 50'000))).front().record.state,
            TaskState::kRejected);
}

TEST_F(SchedulerTest, TheSharingOfAnAttemptIsForgottenWithTheNextAttempt) {
  PolicyConfig config;
  config.recovery_backoff = Duration{0};
  Begin(config, 2);
  Run(1);
  Handle(1, SharingChosen{TaskId{1}, 1, {SharingMethod::kMps, 2'000, 30, "full"}});
  Handle(2, GpuHealthChanged{GpuIndex{0}, false, true, "lost"});
  const std::vector<Action> again =
      Handle(3, TaskExited{TaskId{1}, 1, {.kind = ExitKind::kFailed}});
  ASSERT_EQ(Of<StartTask>(again).size(), 1U);
  EXPECT_EQ(Of<TaskChanged>(again).back().record.attempt->sharing, Sharing{});
}

TEST_F(SchedulerTest, ReportsChangesOfSharing) {
  Begin({});
  Run(1);
  const Sharing mps{.method = SharingMethod::kMps};
  EXPECT_EQ(Of<TaskChanged>(Handle(1, SharingChosen{TaskId{1}, 1, mps})).size(), 1U);
  EXPECT_TRUE(Handle(2, SharingChosen{TaskId{1}, 1, mps}).empty());
}

TEST_F(SchedulerTest, ANewRuleEndsTasksReportedAsIdleBefore) {
  PolicyConfig config;
  config.idle_action = IdleAction::kEnd;
  Begin(config);
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kRunning;
  record.attempt.Edit().number = 1;
  record.attempt.Edit().placement = {{GpuIndex{0}, 1'000}};
  record.attempt.Edit().idle_since = At(1);
  EXPECT_TRUE(Of<StopTask>(Handle(10, TaskRestored{record})).empty());
  const std::vector<Action> told = Handle(11, TaskIdle{TaskId{1}, 1, At(1)});
  ASSERT_EQ(Of<StopTask>(told).size(), 1U);
  EXPECT_EQ(Of<StopTask>(told)[0].cause, StopCause::kIdle);
  EXPECT_TRUE(Handle(12, TaskIdle{TaskId{1}, 1, At(1)}).empty());
}

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
  // The first task runs. Each of the other tasks waits for something that no new task waits for.
  submit(1, {.array = TaskId{1}, .array_limit = 1}, 1'000);
  submit(2, {.begin = At(100)}, 1'000);
  submit(3, {.dependencies = {{TaskId{1}, DependencyKind::kAfterAny, std::nullopt}}}, 1'000);
  submit(4, {.array = TaskId{1}, .array_limit = 1}, 1'000);
  submit(5, {.held = true}, 1'000);
  submit(6, {}, 2'000);
  Handle(2, LaunchFailed{TaskId{6}, 1, "no memory for fork", true});
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{6}, At(2)).code, ReasonCode::kBackoff);
  EXPECT_EQ(verdict(), "");
  // A task that does not fit blocks tasks behind it, but not tasks of a higher priority.
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

TEST_F(SchedulerTest, ADrainByRuleKeepsItsReasonWithAnotherTrouble) {
  Begin();
  const auto trouble = [this] { return scheduler_->Gpus(At(2)).at(0).trouble; };
  Handle(1, DrainRequested{GpuIndex{0}, "Xid 48: a double-bit error", true});
  EXPECT_EQ(trouble(), "Xid 48: a double-bit error");
  Handle(2, GpuHealthChanged{GpuIndex{0}, false, false, "the driver does not answer"});
  EXPECT_EQ(trouble(), "Xid 48: a double-bit error; the driver does not answer");
  Handle(2, GpuHealthChanged{GpuIndex{0}, false, false, "Xid 48: a double-bit error"});
  EXPECT_EQ(trouble(), "Xid 48: a double-bit error") << "once is enough";
}

// The job of a lease is suspended while the lease waits. The lease never fails, however often the
// job does not take its GPUs.
TEST_F(SchedulerTest, OffersGpusAgainIfALeaseDidNotTakeThem) {
  PolicyConfig config;
  config.settle = false;
  Begin(config);
  Handle(1, Submitted(1, {}));
  Handle(1, Estimated(1, 1'000));
  double now_s = 1;
  for (int attempt = 1; attempt <= 8; ++attempt) {
    const TaskRecord* task = scheduler_->Find(TaskId{1});
    ASSERT_NE(task, nullptr);
    ASSERT_EQ(task->state, TaskState::kLaunching) << attempt;
    LaunchFailed back{TaskId{1}, attempt, "its process is stopped"};
    back.not_taken = true;
    Handle(now_s, back);
    EXPECT_EQ(scheduler_->Find(TaskId{1})->state, TaskState::kQueued);
    EXPECT_EQ(scheduler_->ReasonFor(TaskId{1}, At(now_s)).code, ReasonCode::kBackoff);
    now_s += 400;
    Handle(now_s, WakeUp{});
    Handle(now_s, Sampled(0, At(now_s)));
  }
}

TEST_F(SchedulerTest, CrashedTasksAreAheadOnlyIfTheyBlockTheQueue) {
  for (const bool blocks : {false, true}) {
    PolicyConfig config;
    config.settle = false;
    config.sm_cap.reset();
    config.recovery_backoff = Duration{0};
    config.recovery_blocks = blocks;
    Begin(config);
    Run(1);
    Run(2);
    Handle(1, DrainRequested{GpuIndex{0}, "test"});
    Handle(2, TaskExited{TaskId{2}, 1, {.kind = ExitKind::kOutOfMemory, .code = 1}});
    ASSERT_EQ(scheduler_->Find(TaskId{2})->state, TaskState::kQueued);
    const ReasonCode code = Try(*scheduler_, {}, {}, At(2)).reason.code;
    EXPECT_EQ(code, blocks ? ReasonCode::kPriority : ReasonCode::kDraining);
  }
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
            "The task asks for 3 GPUs that work together; this server has 2 whole GPUs and 1 MIG "
            "instance, which only works alone.");
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

TEST_F(SchedulerTest, IgnoresAPlacementOnAMissingGpu) {
  Begin();
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kRunning;
  record.attempt.Edit().number = 3;
  record.attempt.Edit().placement = {{GpuIndex{0}, 1'000}, {GpuIndex{9}, 1'000}};
  Handle(0, TaskRestored{record});
  EXPECT_EQ(scheduler_->Gpus(At(0))[0].claimed_mib, 1'000);
  Handle(1, TaskExited{TaskId{1}, 3, {}});
  EXPECT_EQ(scheduler_->Gpus(At(1))[0].claimed_mib, 0);
}

TEST_F(SchedulerTest, TheObservedActivityIsTheMeanOfTheWholeAttempt) {
  PolicyConfig config;
  config.sharing = SharingMethod::kStreams;
  Begin(config);
  Run(1);
  const auto seen_at = [](std::int64_t s, double sm_active) {
    GpuSampled sampled = Sampled(0, At(s));
    sampled.sample.sm_active = sm_active;
    sampled.sample.used_mib = 1'000;
    sampled.sample.tasks_mib = {{TaskId{1}, 1'000}};
    return sampled;
  };
  Handle(10, seen_at(10, 0.9));
  for (const auto& [s, sm_active] :
       {std::pair(100, 0.8), std::pair(150, 0.8), std::pair(1'090, 0.2)})
    Handle(s, seen_at(s, sm_active));
  const std::vector<Action> ended = Handle(1'100, TaskExited{TaskId{1}, 1, {}});
  EXPECT_EQ(Of<TaskChanged>(ended).front().record.seen->sm_active, 0.79)
      << "only ten of a thousand seconds went into saving";
}

TEST_F(SchedulerTest, TheRunTimeAloneIsUnknownAfterARestart) {
  const auto alone = [](const std::vector<Action>& ended) {
    return Of<TaskChanged>(ended).front().record.seen->alone;
  };
  Begin();
  Run(1);
  EXPECT_NE(alone(Handle(90, TaskExited{TaskId{1}, 1, {}})), std::nullopt);
  TaskRecord record;
  record.id = TaskId{2};
  record.state = TaskState::kRunning;
  record.attempt.Edit().number = 1;
  record.attempt.Edit().placement = {{GpuIndex{0}, 1'000}};
  Handle(100, TaskRestored{record});
  EXPECT_EQ(alone(Handle(160, TaskExited{TaskId{2}, 1, {}})), std::nullopt)
      << "only its last minute was observed";
}

TEST(SchedulerDeathTest, AbortsIfTimeGoesBack) {
  Scheduler scheduler{{}};
  scheduler.Handle(At(2), WakeUp{});
  EXPECT_DEATH(scheduler.Handle(At(1), WakeUp{}), "time went back");
}

// ---- random events ----

// Generates plausible and implausible events from the core's actions.
class World {
 public:
  World(std::uint64_t seed, PolicyConfig config, int gpus)
      : rng_(seed), scheduler_(std::move(config)), gpus_(gpus) {
    std::vector<GpuInfo> infos = Gpus(gpus);
    infos.back().mig = true;
    Bring(GpusDiscovered{std::move(infos)});
  }

  void Step() {
    now_ += Duration{static_cast<std::int64_t>(rng_.Below(3'000))};
    const std::uint64_t kind = rng_.Below(26);
    if (kind < 6 || kind >= 22) return Bring(Sample());
    if (kind < 10) return Bring(Submit());
    const TaskId id{1 + rng_.Below(next_id_)};
    const int attempt = started_[Number(id)] - (rng_.Below(10) == 0 ? 1 : 0);
    switch (kind) {
      case 10:
        return Bring(CancelRequested{id, "chance"});
      case 11:
        return Bring(HoldRequested{id});
      case 12:
        return Bring(ReleaseRequested{id});
      case 13:
        return Bring(RequeueRequested{id});
      case 14:
        return Bring(LaunchFailed{id, attempt, "chance", rng_.Below(2) == 0});
      case 15:
        return Bring(GpuHealthChanged{Gpu(), rng_.Below(6) != 0, rng_.Below(12) == 0, "chance"});
      case 16:
        return rng_.Below(4) == 0 ? Bring(DrainRequested{Gpu(), "chance", rng_.Below(2) == 0})
                                  : Bring(ResumeRequested{Gpu(), rng_.Below(2) == 0});
      case 17:
        return Bring(PriorityChanged{id, static_cast<std::int64_t>(rng_.Below(5))});
      case 18:
        return Bring(SharingChosen{id, attempt, {.method = SharingMethod::kMps}});
      case 19:
        return Bring(
            TaskIdle{id, attempt, rng_.Below(2) == 0 ? std::optional(now_) : std::nullopt});
      case 20:
        return Bring(PolicyChanged{OtherMargin()});
      default:
        return Exit();
    }
  }

  // Lets all waiting and running tasks end without new submissions.
  void Finish() {
    for (int round = 0; round < 100'000 && !scheduler_.Tasks().empty(); ++round) {
      now_ += Duration{1'000};
      if (scheduler_.Tasks().begin()->second.state == TaskState::kQueued) {
        Bring(CancelRequested{scheduler_.Tasks().begin()->first, "end"});
      } else {
        const TaskRecord& task = scheduler_.Tasks().begin()->second;
        Bring(TaskExited{task.id, task.attempt->number, {}});
      }
    }
  }

  int starts() const { return starts_; }
  const std::vector<Action>& all() const { return all_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  void Bring(const Event& event) { Bring(std::vector<Event>{event}); }
  void Bring(std::vector<Event> events) {
    while (!events.empty()) {
      const std::vector<Action> actions = scheduler_.HandleAll(now_, events);
      events.clear();
      for (const Action& action : actions) {
        if (const auto* start = std::get_if<StartTask>(&action)) {
          started_[Number(start->id)] = start->attempt;
          ++starts_;
          if (rng_.Below(4) != 0) events.emplace_back(TaskStarted{start->id, start->attempt});
        } else if (const auto* asks = std::get_if<RequestEstimate>(&action)) {
          EstimateReady answer{asks->id, std::nullopt};
          if (rng_.Below(4) != 0)
            answer.estimate = Estimate{static_cast<std::int64_t>(rng_.Below(45'000)), "chance"};
          events.emplace_back(answer);
        }
        all_.push_back(action);
      }
      if (!wrong_) wrong_ = scheduler_.CheckBooks();
      if (!wrong_) wrong_ = Promises();
    }
  }

  PolicyConfig OtherMargin() {
    PolicyConfig policy = scheduler_.config();
    policy.margin_mib = static_cast<std::int64_t>(rng_.Below(10'000));
    return policy;
  }

  // Checks what the guards guarantee for every GPU.
  std::optional<std::string> Promises() const {
    std::vector<double> shares(gpus_);
    std::vector<int> tasks(gpus_);
    for (const auto& [id, task] : scheduler_.Tasks()) {
      if (!HoldsGpus(task.state)) continue;
      for (const Placement& each : task.attempt->placement) {
        ++tasks[Number(each.gpu)];
        shares[Number(each.gpu)] += task.request->sm_share.value_or(0);
        const bool instance = scheduler_.GpuInfos()[Number(each.gpu)].mig;
        if (instance && task.request->gpus > 1) return "an instance holds a part of a task";
      }
    }
    if (tasks.back() > 1 && !scheduler_.config().share_mig) return "several tasks on an instance";
    if (std::ranges::any_of(shares, [](double sum) { return sum > 1 + 1e-6; }))
      return "more than all SMs are promised";
    return std::nullopt;
  }

  GpuIndex Gpu() { return GpuIndex{static_cast<std::uint32_t>(rng_.Below(gpus_))}; }

  // Most values are plausible; some are late, wrong, or lack memory or activity.
  std::vector<Event> Sample() {
    std::vector<Event> events;
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
      if (rng_.Below(12) == 0) continue;
      GpuSample sample;
      sample.taken = now_ - Duration{static_cast<std::int64_t>(rng_.Below(2'000))};
      sample.window_from = sample.taken - Duration{static_cast<std::int64_t>(rng_.Below(60'000))};
      if (rng_.Below(8) != 0) sample.sm_active = rng_.Uniform();
      sample.attributed = rng_.Below(8) != 0;
      sample.foreign_processes = rng_.Below(8) == 0 ? 1 : 0;
      sample.used_mib = sample.foreign_processes * 500;
      for (const auto& [id, task] : scheduler_.Tasks()) {
        const bool here = std::ranges::any_of(task.attempt->placement, [&](const Placement& each) {
          return Number(each.gpu) == gpu;
        });
        if (!here || rng_.Below(4) == 0) continue;
        sample.tasks_mib.emplace_back(id, rng_.Below(20'000));
        sample.used_mib += sample.tasks_mib.back().second;
      }
      events.emplace_back(GpuSampled{GpuIndex{gpu}, sample});
    }
    return events;
  }

  Event Submit() {
    TaskRequest request;
    request.gpus = 1 + static_cast<int>(rng_.Below(gpus_ + 1));
    request.exclusive = rng_.Below(6) == 0;
    if (rng_.Below(3) == 0) request.sm_share = 0.05 * static_cast<double>(1 + rng_.Below(20));
    request.priority = static_cast<std::int64_t>(rng_.Below(3));
    request.held = rng_.Below(8) == 0;
    request.requeue = rng_.Below(2) == 0;
    request.max_recoveries = static_cast<int>(rng_.Below(4));
    if (rng_.Below(4) == 0) request.begin = now_ + Duration{20'000};
    if (rng_.Below(3) == 0) request.time_limit = Duration{30'000};
    if (rng_.Below(3) == 0) {
      request.dependencies.push_back({TaskId{1 + rng_.Below(next_id_ + 1)},
                                      static_cast<DependencyKind>(rng_.Below(3)), std::nullopt});
    }
    return TaskSubmitted{TaskId{++next_id_}, request};
  }

  void Exit() {
    std::vector<TaskId> there;
    for (const auto& [id, task] : scheduler_.Tasks()) {
      if (HoldsGpus(task.state)) there.push_back(id);
    }
    if (there.empty()) return Bring(WakeUp{});
    const TaskId id = there[rng_.Below(there.size())];
    ExitInfo exit{.kind = static_cast<ExitKind>(rng_.Below(8))};
    Bring(TaskExited{id, scheduler_.Find(id)->attempt->number, exit});
  }

  base::Rng rng_;
  Scheduler scheduler_;
  std::uint64_t gpus_;
  Time now_{};
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, int> started_;
  int starts_ = 0;
  std::vector<Action> all_;
  std::optional<std::string> wrong_;
};

struct Chance {
  std::string name;
  PolicyConfig config;
};

std::vector<Chance> Policies() {
  std::vector<Chance> all;
  for (const MapperEntry& mapper : Mappers()) {
    PolicyConfig config;
    config.mapper = mapper.name;
    config.recovery_patience = Duration{30'000};
    config.stale_after = Duration{30'000};
    config.settle_timeout = Duration{20'000};
    if (mapper.name == kScoreMapper) {
      config.score = *GpuRule::Parse("free_mib - 5000 * own_tasks + waited_s * gain");
      config.require = *GpuRule::Parse("own_tasks < 3 or activity < 0.5");
    }
    all.push_back({std::string(mapper.name), config});
    config.recovery = RecoveryMode::kExclusive;
    config.settle = false;
    config.use_given_memory = false;
    all.push_back({std::string(mapper.name) + " without estimates", config});
    config.share_mig = true;
    config.idle_action = IdleAction::kShare;
    all.push_back({std::string(mapper.name) + " with what idles", config});
    config.idle_action = IdleAction::kEnd;
    for (const char* era : {"thesis", "v2"})
      all.push_back({std::string(mapper.name) + " " + era, *AsPublished(era, config)});
  }
  return all;
}

TEST(Chance, RecordsAgreeAfterEveryEventAndNothingIsLeft) {
  std::uint64_t seed = 0;
  for (const Chance& policy : Policies()) {
    ASSERT_TRUE(Validate(policy.config)) << policy.name;
    ++seed;
    World world(seed, policy.config, 1 + static_cast<int>(seed % 4));
    for (int i = 0; i < 1'000 && !world.wrong(); ++i) world.Step();
    ASSERT_EQ(world.wrong(), std::nullopt) << policy.name;
    EXPECT_GT(world.starts(), 3) << policy.name;
    world.Finish();
    ASSERT_EQ(world.wrong(), std::nullopt) << policy.name;
    EXPECT_TRUE(world.scheduler().Tasks().empty()) << policy.name;
    for (const GpuView& view : world.scheduler().Gpus(At(1e9))) {
      EXPECT_EQ(view.claimed_mib, 0) << policy.name;
      EXPECT_EQ(view.tasks, 0) << policy.name;
    }
  }
}

TEST(Chance, EqualHistoriesGiveEqualActions) {
  for (const Chance& policy : Policies()) {
    World first(42, policy.config, 3);
    World second(42, policy.config, 3);
    for (int i = 0; i < 500; ++i) {
      first.Step();
      second.Step();
    }
    EXPECT_TRUE(first.all() == second.all()) << policy.name;
  }
}

}  // namespace
}  // namespace carma::core

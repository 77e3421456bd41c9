// Tests cases that scenario files cannot express: batches, old attempts, wake-ups, and time that
// goes backwards.
#include "core/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include "core/scheduler/scheduler_fixture.h"
#include "core/scheduler/trial.h"

namespace carma::core {
namespace {

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
  const auto others = [&](double from_s) {
    ReservedPeriod period{.booking = {.id = ReservationId{1}, .users = {"eve"}},
                          .from = At(from_s),
                          .to = At(20'000)};
    Handle(1, ReservationsChanged{{period}});
    return scheduler_->ReservationsNow().at(0).others;
  };
  EXPECT_TRUE(others(3'601).empty()) << "its time limit ends it before then, once it has started";
  EXPECT_EQ(others(3'600), std::vector{TaskId{1}});
  Handle(1, TaskStarted{TaskId{1}, 1});
  EXPECT_EQ(others(3'600), std::vector{TaskId{1}});
  EXPECT_TRUE(others(3'601).empty()) << "its time limit ends it before then";
}

TaskRecord EndedRecord(const std::vector<Action>& actions) {
  return Of<TaskChanged>(actions).at(0).record;
}

TEST_F(SchedulerTest, ATaskThatEndedWhileTheDaemonWasDownRanOnlyUntilThen) {
  Begin();
  Run(1);
  Handle(1, TaskStarted{TaskId{1}, 1});
  const std::vector<Action> actions = Handle(7'200, TaskExited{TaskId{1}, 1, {}, 0, At(3'600)});
  EXPECT_EQ(EndedRecord(actions).ended, At(3'600));
  EXPECT_EQ(Of<AttemptEnded>(actions).at(0).taken.to, At(3'600));
}

TEST_F(SchedulerTest, ATaskThatMayStayAfterAllHasNoDeadline) {
  Begin();
  Run(1);
  Handle(1, TaskStarted{TaskId{1}, 1});
  EXPECT_EQ(Of<AskToSave>(Handle(2, ServerClosed{"upgrade", At(10)})).size(), 1U);
  EXPECT_EQ(Of<DropDeadline>(Handle(3, ServerOpened{})), (std::vector{DropDeadline{TaskId{1}, 1}}));
}

TEST_F(SchedulerTest, ATaskDoesNotEndBeforeItsReportedStart) {
  Begin();
  Run(1);
  Handle(2, TaskStarted{TaskId{1}, 1});
  const std::vector<Action> actions = Handle(2, TaskExited{TaskId{1}, 1, {}, 0, At(1)});
  EXPECT_EQ(EndedRecord(actions).ended, At(2));
}

TEST_F(SchedulerTest, ATaskThatSucceededBeforeItsTimeLimitSucceedsAlthoughItWasStoppedSince) {
  Begin();
  Handle(0, Submitted(1, {.time_limit = Duration{3'600'000}}));
  Handle(0, Estimated(1, 1'000));
  Handle(1, TaskStarted{TaskId{1}, 1});
  Handle(7'200, WakeUp{});
  ASSERT_EQ(scheduler_->Find(TaskId{1})->state, TaskState::kStopping);
  const auto actions = Handle(7'201, TaskExited{TaskId{1}, 1, {}, 0, At(3'000)});
  EXPECT_EQ(EndedRecord(actions).state, TaskState::kSucceeded);
}

TEST_F(SchedulerTest, AGpuIsNotClosedWhileTheCoreGetsNoEvents) {
  Begin();
  EXPECT_TRUE(scheduler_->Gpus(At(3'600))[0].healthy);
  Handle(3'600, WakeUp{});
  EXPECT_FALSE(scheduler_->Gpus(At(3'600))[0].healthy) << "its sample is an hour old";
}

TEST_F(SchedulerTest, ADrainedGpuThatIsNotReadShowsNoOldTrouble) {
  Begin();
  Handle(1, GpuHealthChanged{GpuIndex{0}, false, false, "the driver hangs"});
  EXPECT_EQ(scheduler_->Gpus(At(1))[0].trouble, "the driver hangs");
  Handle(2, DrainRequested{GpuIndex{0}, "repair"});
  EXPECT_TRUE(scheduler_->Gpus(At(2))[0].healthy);
  EXPECT_EQ(scheduler_->Gpus(At(2))[0].trouble, "repair");
  Handle(3, ResumeRequested{GpuIndex{0}});
  EXPECT_FALSE(scheduler_->Gpus(At(3))[0].healthy) << "it has not been read since";
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

TEST_F(SchedulerTest, ATaskKeepsItsWaitingTimeIfItIsEditedOrRequeuedWhileItWaits) {
  Begin();
  Handle(0, Submitted(1, {.exclusive = true}));
  Handle(0, Estimated(1, 1'000));
  Handle(5, Submitted(2));
  Handle(6, Estimated(2, 1'000));
  const auto since = [&] { return scheduler_->Find(TaskId{2})->queued_since; };
  const auto edit = [&](double seconds, std::int64_t mib) {
    TaskRequest request = scheduler_->Find(TaskId{2})->request;
    request.memory_mib = mib;
    Handle(seconds, TaskEdited{TaskId{2}, request});
    Handle(seconds + 1, Estimated(2, mib));
  };
  ASSERT_EQ(since(), At(6));
  edit(60, 2'000);
  EXPECT_EQ(since(), At(6));
  Handle(70, RequeueRequested{TaskId{2}});
  EXPECT_EQ(since(), At(6));
  Handle(80, HoldRequested{TaskId{2}});
  edit(90, 3'000);
  EXPECT_EQ(since(), At(90)) << "a held task does not wait for GPUs";
  Handle(100, ReleaseRequested{TaskId{2}});
  EXPECT_EQ(since(), At(100));
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

TEST_F(SchedulerTest, AHeldTaskThatNoLongerFitsSaysBoth) {
  Begin();
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kQueued;
  record.held = true;
  Handle(0, TaskRestored{record});
  EXPECT_EQ(scheduler_->ReasonFor(TaskId{1}, At(0)).text, "Held until it is released.");
  record.id = TaskId{2};
  record.request.Edit().gpus = 4;
  Handle(0, TaskRestored{record});
  const Reason reason = scheduler_->ReasonFor(TaskId{2}, At(0));
  EXPECT_EQ(reason.code, ReasonCode::kHeld);
  EXPECT_EQ(reason.text,
            "Held until it is released. It cannot start even then: The task asks for 4 GPUs, but "
            "this server has 1.");
}

TEST_F(SchedulerTest, ATaskBeyondALoweredLimitDoesNotBlockItsUsersOtherTasks) {
  const auto limited = [](std::string_view rule) {
    PolicyConfig config;
    config.limits = {*ParseLimitRule(rule)};
    return config;
  };
  Begin(limited("user=* gpus=2"), 2);
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) Handle(0, DrainRequested{GpuIndex{gpu}, "repair"});
  Handle(0, Submitted(1, {.gpus = 2, .user = "ada"}));
  Handle(0, Estimated(1, 1'000));
  Handle(0, Submitted(2, {.user = "ada"}));
  Handle(0, EstimateReady{TaskId{2}, Estimate{30'000, "structural", 30'000}});
  Handle(1, PolicyChanged{limited("user=* gpus=1 memory=20000M")});
  const Reason reason = scheduler_->ReasonFor(TaskId{1}, At(1));
  EXPECT_EQ(reason.code, ReasonCode::kLimit);
  EXPECT_NE(reason.text->find("the task needs 2"), std::string::npos) << *reason.text;
  EXPECT_NE(reason.text->find("carma edit"), std::string::npos) << *reason.text;
  EXPECT_EQ(scheduler_->Find(TaskId{2})->estimate->peak_mib, 20'000);
  const std::vector<StartTask> started =
      Of<StartTask>(Handle(2, ResumeRequested{GpuIndex{0}, false}));
  ASSERT_EQ(started.size(), 1U);
  EXPECT_EQ(started[0].id, TaskId{2});
  Handle(3, PolicyChanged{limited("user=* gpus=3")});
  EXPECT_NE(scheduler_->ReasonFor(TaskId{1}, At(3)).code, ReasonCode::kLimit);
}

TEST_F(SchedulerTest, ARefusalShowsHowTheMemoryDiffers) {
  Begin();
  const auto text = [&](std::int64_t mib) {
    return std::string(*scheduler_->NeverFits({}, Estimate{mib, "given"})->text);
  };
  EXPECT_EQ(text(50'000),
            "48.8G does not fit on any GPU that the task may use; the largest has 39.1G.");
  EXPECT_EQ(text(40'001),
            "40001M does not fit on any GPU that the task may use; the largest has 40000M.");
}

TEST_F(SchedulerTest, ARefusalShowsWhyTheGpuHasNoMemory) {
  scheduler_ = std::make_unique<Scheduler>(PolicyConfig{});
  Handle(0, GpusDiscovered{{GpuInfo{.uuid = "GPU-0"}}});
  Handle(0, GpuHealthChanged{GpuIndex{0}, false, false, "MIG is on but there are no instances"});
  EXPECT_EQ(*scheduler_->NeverFits({}, Estimate{4'096, "given"})->text,
            "GPU 0 cannot be used: MIG is on but there are no instances.");
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
  // The new estimate can show that the task no longer fits on any GPU.
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

TEST_F(SchedulerTest, ATaskThatEndedBeforeARestartHasNotReachedItsTimeLimit) {
  Begin();
  TaskRecord record;
  record.id = TaskId{1};
  record.state = TaskState::kRunning;
  record.request.Edit().time_limit = Duration{60'000};
  record.attempt.Edit().number = 1;
  record.attempt.Edit().started = At(1);
  EXPECT_TRUE(Of<StopTask>(Handle(100, TaskRestored{record})).empty());
  const std::vector<Action> ended = Handle(100, TaskExited{TaskId{1}, 1, {}});
  EXPECT_EQ(Of<TaskChanged>(ended).front().record.state, TaskState::kSucceeded);
  record.id = TaskId{2};
  Handle(100, TaskRestored{record});
  EXPECT_EQ(Of<StopTask>(Handle(100, WakeUp{})).size(), 1U) << "it still runs";
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

TEST_F(SchedulerTest, ADrainOfAFaultyGpuShowsBothReasonsWhileTasksAreLeft) {
  Begin();
  Run(1);
  Handle(1, GpuHealthChanged{GpuIndex{0}, false, false, "the driver hangs"});
  Handle(2, DrainRequested{GpuIndex{0}, "repair"});
  const GpuView gpu = scheduler_->Gpus(At(2)).at(0);
  ASSERT_EQ(gpu.tasks, 1);
  EXPECT_TRUE(gpu.drained);
  EXPECT_FALSE(gpu.healthy);
  EXPECT_EQ(gpu.trouble, "repair; the driver hangs");
}

// A lease's job is suspended while the lease waits. The lease never fails, no matter how often the
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
    back.waits = true;
    Handle(now_s, back);
    EXPECT_EQ(scheduler_->Find(TaskId{1})->state, TaskState::kQueued);
    EXPECT_EQ(scheduler_->ReasonFor(TaskId{1}, At(now_s)).code, ReasonCode::kBackoff);
    now_s += 400;
    Handle(now_s, WakeUp{});
    Handle(now_s, Sampled(0, At(now_s)));
  }
}

TEST_F(SchedulerTest, PausesAsLongAsAStartThatHungKeptTheGpus) {
  Begin();
  Run(1);
  LaunchFailed hung{TaskId{1}, 1, "it did not start"};
  hung.waits = true;
  Handle(120, hung);
  EXPECT_EQ(scheduler_->Find(TaskId{1})->not_before, At(240));
}

// A directory server may be down, so the task is retried for about an hour.
TEST_F(SchedulerTest, HoldsATaskWhoseUserIsNotFound) {
  PolicyConfig config;
  config.settle = false;
  Begin(config);
  Handle(1, Submitted(1, {}));
  Handle(1, Estimated(1, 1'000));
  double now_s = 1;
  int attempt = 0;
  while (scheduler_->Find(TaskId{1})->state == TaskState::kLaunching) {
    ASSERT_LE(++attempt, 100) << "it is launched without an end";
    LaunchFailed back{TaskId{1}, attempt, "user ada no longer exists"};
    back.waits = back.no_user = true;
    Handle(now_s, back);
    now_s += 320;
    Handle(now_s, WakeUp{});
    Handle(now_s, Sampled(0, At(now_s)));
  }
  EXPECT_EQ(attempt, 16);
  EXPECT_TRUE(scheduler_->Find(TaskId{1})->held);
  EXPECT_EQ(scheduler_->Find(TaskId{1})->reason.text, "Held: user ada no longer exists.");
  Handle(now_s, ReleaseRequested{TaskId{1}});
  EXPECT_EQ(scheduler_->Find(TaskId{1})->state, TaskState::kLaunching);
}

// A lease has no retries of its own, but Slurm may still requeue its job.
TEST_F(SchedulerTest, MentionsRetriesOnlyIfTheTaskHadSome) {
  PolicyConfig config;
  config.settle = false;
  config.sm_cap.reset();
  Begin(config);
  Run(1);
  TaskRequest lease;
  lease.max_recoveries = 0;
  Handle(0, Submitted(2, lease));
  Handle(0, Estimated(2, 1'000));
  const auto ended =
      Of<TaskChanged>(Handle(2, TaskExited{TaskId{2}, 1, {.kind = ExitKind::kOutOfMemory}}));
  ASSERT_FALSE(ended.empty());
  EXPECT_EQ(ended.front().record.state, TaskState::kOutOfMemory);
  EXPECT_EQ(ended.front().record.reason.text, "Ran out of GPU memory 1 time.");
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
      << "only ten of a thousand seconds were spent saving";
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

}  // namespace
}  // namespace carma::core

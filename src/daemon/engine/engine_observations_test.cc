// Tests which observations the engine makes when tasks end, and when it makes none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/fake_clock.h"
#include "base/file.h"
#include "daemon/engine/engine.h"
#include "task/shim/attempt_folder.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr core::GpuIndex kGpu{0};

// An engine with one GPU and a real store. The test controls the launcher and the loop.
class ObservationTest : public ::testing::Test, public Engine::Host, public task::Launcher {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-lesson-XXXXXX";
    state_dir_ = ::mkdtemp(folder.data());
    Open();
  }
  void TearDown() override {
    engine_.reset();
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }
  void Open() {
    engine_.reset();
    store_.reset();
    store_ = store::Store::Open(state_dir_).value();
    history_ = std::make_shared<estimate::History>();
    EngineOptions options;
    options.state_dir = state_dir_;
    options.policy.recovery_backoff = base::Duration(0);
    options.policy.limits = limits_;
    options.history = history_;
    engine_ = std::make_unique<Engine>(options, *store_, *this, clock_, *this);
    ASSERT_TRUE(engine_->Start(gpus_));
    Sample({});
  }

  // Submits a task and leaves it waiting for its estimate.
  core::TaskId Send(std::vector<core::Dependency> dependencies = {}) {
    task::TaskSpec spec;
    spec.name = "train";
    spec.command = {"python", "train.py"};
    spec.workdir = "/";
    spec.stdout_path = "/dev/null";
    spec.model_summary = "/model.txt";
    spec.dependencies = std::move(dependencies);
    core::TaskId id{};
    engine_->Submit({spec}, {1000, 1000, "ada"}, [&](Result<Submitted> answer) {
      ASSERT_TRUE(answer) << answer.error().message;
      id = answer->first;
    });
    engine_->Turn();
    EXPECT_EQ(jobs_.size(), 1U);
    EXPECT_EQ(jobs_.front().uid, 1000U);
    return id;
  }
  core::TaskId Submit(std::int64_t memory_mib = 5'000,
                      std::vector<core::Dependency> dependencies = {}) {
    const core::TaskId id = Send(std::move(dependencies));
    EstimateResult result;
    result.id = result.forecast.task = id;
    result.estimate = core::Estimate{memory_mib + 500, "structural", memory_mib};
    result.forecast.model = "fingerprint";
    result.forecast.formula = task::FormulaSplit{1'700, memory_mib - 1'700};
    result.forecast.remarks = {"assumed Adam"};
    jobs_.clear();
    engine_->TakeEstimate(std::move(result));
    engine_->Turn();
    return id;
  }
  // Starts the next attempt, reports this memory usage for it, and lets it run for this long.
  void Run(core::TaskId id, std::int64_t seen_mib, base::Duration span, bool attributed = true) {
    ++attempt_;
    ASSERT_EQ(started_, attempt_) << "the task was not started";
    task::ShimEvent began{.kind = task::ShimEventKind::kStarted, .id = id, .attempt = attempt_};
    began.process = base::ReadProcessStat(::getpid())->id;
    Tell(began);
    Sample({{id, seen_mib}}, attributed);
    clock_.Advance(span);
  }
  void End(core::TaskId id, int code, const std::string& last_words = "") {
    Sample({{id, 0}});
    Tell({.kind = task::ShimEventKind::kExited,
          .id = id,
          .attempt = attempt_,
          .exit_code = code,
          .stderr_tail = last_words});
  }
  void Tell(task::ShimEvent event) {
    news_.push_back(std::move(event));
    engine_->PollLauncher();
    engine_->Turn();
  }
  void Sample(std::vector<std::pair<core::TaskId, std::int64_t>> tasks_mib,
              bool attributed = true) {
    clock_.Advance(base::Duration(1'000));
    core::GpuSample sample;
    sample.taken = sample.window_from = clock_.Now();
    for (const auto& [task, mib] : tasks_mib) sample.used_mib += mib;
    sample.sm_active = 0.1;
    sample.tasks_mib = std::move(tasks_mib);
    sample.attributed = attributed;
    sample.foreign_processes = strangers_;
    engine_->Post(core::GpuSampled{kGpu, sample});
    engine_->Turn();
  }
  std::vector<task::Observation> Kept() { return store_->Observations().value(); }

  // Implements Engine::Host.
  void RequestTurn() override {}
  void RequestEstimates(std::vector<EstimateJob> jobs) override { jobs_ = std::move(jobs); }
  void WakeAt(base::Time) override {}
  void RetryTurnLater() override { EXPECT_TRUE(store_fails_) << engine_->store_trouble(); }
  void TaskChanged(const core::TaskChanged&) override {}
  std::optional<double> RecentFullness(core::GpuIndex) override { return std::nullopt; }
  std::vector<int> RecentXids(core::GpuIndex, base::Time) override { return {}; }
  void AfterNextReading(std::function<void()> call) override { call(); }
  // Implements task::Launcher.
  void Start(task::LaunchOrder order) override { started_ = order.attempt; }
  void Stop(core::TaskId, int, const std::string&) override {}
  void Warn(core::TaskId, int) override { ++warned_; }
  void AskToSave(core::TaskId, int, base::Time) override {}
  void Adopt(const task::KnownAttempt&) override {}
  void Forget(core::TaskId, int, const std::string&) override {}
  int PollFd() const override { return -1; }
  void Poll(const Sink& sink) override {
    for (task::ShimEvent& event : std::exchange(news_, {})) sink(std::move(event));
  }

  std::string state_dir_;
  std::vector<core::GpuInfo> gpus_{{"GPU-0", "A100", 41'000, 1'000}};
  base::FakeClock clock_{base::FromMs(1'000'000)};
  std::unique_ptr<store::Store> store_;
  std::shared_ptr<estimate::History> history_;
  std::unique_ptr<Engine> engine_;
  std::vector<EstimateJob> jobs_;
  std::vector<task::ShimEvent> news_;
  std::vector<core::LimitRule> limits_;
  int started_ = 0, attempt_ = 0, warned_ = 0;
  bool store_fails_ = false;  // as the test expects
  int strangers_ = 0;         // processes on the GPU that do not belong to a task
};

TEST_F(ObservationTest, LearnsEverythingFromACompleteRun) {
  const core::TaskId id = Submit();
  EXPECT_EQ(store_->ForecastOf(id).value()->remarks, (std::vector<std::string>{"assumed Adam"}));
  Run(id, 4'800, base::Duration(60'000));
  End(id, 0);
  const std::vector<task::Observation> kept = Kept();
  ASSERT_EQ(kept.size(), 1U);
  const task::Observation& lesson = kept.front();
  EXPECT_EQ(lesson.task, id);
  EXPECT_EQ(lesson.uid, 1000U);
  EXPECT_TRUE(lesson.signature.starts_with("1000-"));
  EXPECT_EQ(lesson.gpu_type, "A100");
  EXPECT_EQ(lesson.method, "structural");
  EXPECT_EQ(lesson.predicted_mib, 5'000);
  EXPECT_EQ(lesson.promised_mib, 5'500);
  EXPECT_EQ(lesson.measured_mib, 4'800);
  EXPECT_FALSE(lesson.ran_out);
  EXPECT_EQ(lesson.formula, (task::FormulaSplit{1'700, 3'300}));
  EXPECT_THAT(history_->OfSignature(lesson.signature), ElementsAre(lesson));
  Open();
  EXPECT_THAT(history_->OfSignature(lesson.signature), ElementsAre(lesson)) << "after a restart";
}

TEST_F(ObservationTest, LearnsNothingFromUnreliableRuns) {
  const core::TaskId short_one = Submit();
  Run(short_one, 4'800, base::Duration(50'000));
  End(short_one, 0);
  EXPECT_THAT(Kept(), IsEmpty()) << "shorter than a minute";
  started_ = attempt_ = 0;
  const core::TaskId failed = Submit();
  Run(failed, 4'800, base::Duration(600'000));
  End(failed, 1, "ValueError: no such file");
  EXPECT_THAT(Kept(), IsEmpty()) << "failed";
  started_ = attempt_ = 0;
  const core::TaskId unclear = Submit();
  Run(unclear, 4'800, base::Duration(600'000), false);
  End(unclear, 0);
  EXPECT_THAT(Kept(), IsEmpty()) << "the driver did not report all of its memory";
  started_ = attempt_ = 0;
  const core::TaskId unseen = Submit();
  Run(unseen, 0, base::Duration(600'000));
  End(unseen, 0);
  EXPECT_THAT(Kept(), IsEmpty()) << "never seen on the GPU";
}

TEST_F(ObservationTest, TimeWithoutADaemonIsUnknown) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(600'000));
  Open();
  End(id, 0);
  EXPECT_EQ(store_->Get(id)->record.state, core::TaskState::kSucceeded);
  EXPECT_THAT(Kept(), IsEmpty()) << "it may have grown while no daemon ran";
}

TEST_F(ObservationTest, LearnsALowerLimitFromOutOfMemoryAndThePeakFromTheRetry) {
  const core::TaskId id = Submit();
  // The task is retried because another process on the GPU may have left it too little memory.
  strangers_ = 1;
  Run(id, 5'600, base::Duration(5'000));
  End(id, 1,
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. Of the "
      "allocated memory 3.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but "
      "unallocated.");
  ASSERT_EQ(Kept().size(), 1U);
  EXPECT_EQ(Kept().front().allocated_mib, 3'072);
  EXPECT_TRUE(Kept().front().ran_out);
  EXPECT_EQ(Kept().front().measured_mib, 5'600);
  EXPECT_EQ(Kept().front().gpu_type, "A100");
  Sample({});
  Run(id, 7'700, base::Duration(600'000));
  End(id, 0);
  ASSERT_EQ(Kept().size(), 2U);
  EXPECT_FALSE(Kept().back().ran_out);
  EXPECT_EQ(Kept().back().measured_mib, 7'700);
}

TEST_F(ObservationTest, ARequeuedTaskIsEstimatedWithCurrentKnowledge) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(60'000));
  End(id, 0);
  engine_->Requeue(id, "", [](Result<Unit> done) { EXPECT_TRUE(done); });
  engine_->Turn();
  ASSERT_EQ(jobs_.size(), 1U);
  EXPECT_EQ(jobs_.front().id, id);
  EXPECT_FALSE(store_->Get(id)->record.estimate);
  EstimateResult result;
  result.id = result.forecast.task = id;
  result.estimate = core::Estimate{4'900, "history", 4'800};
  engine_->TakeEstimate(std::move(result));
  engine_->Turn();
  EXPECT_EQ(started_, 2) << "attempt numbers continue";
  EXPECT_EQ(store_->Get(id)->record.estimate->method, "history");
  EXPECT_EQ(store_->ForecastOf(id).value()->remarks, (std::vector<std::string>{}))
      << "those of the earlier estimate are gone";
}

TEST_F(ObservationTest, ChangesToATaskThatIsBeingEstimatedSurviveARestart) {
  const core::TaskId id = Send();
  engine_->Post(core::HoldRequested{id});
  engine_->Post(core::PriorityChanged{id, -7});
  engine_->Turn();
  EXPECT_TRUE(store_->Get(id)->record.held) << "carma show reads this";
  jobs_.clear();
  Open();
  const core::TaskRecord& record = *engine_->scheduler().Find(id);
  EXPECT_EQ(record.state, core::TaskState::kEstimating);
  EXPECT_TRUE(record.held);
  EXPECT_EQ(record.request->priority, -7);
  EXPECT_EQ(jobs_.size(), 1U) << "the estimate is requested again";
}

TEST_F(ObservationTest, AStartedTaskKeepsTheEndOfARequeuedTaskAcrossARestart) {
  const core::TaskId first = Submit();
  Run(first, 4'800, base::Duration(60'000));
  End(first, 0);
  const core::TaskId second =
      Submit(5'000, {{first, core::DependencyKind::kAfterOk, std::nullopt}});
  attempt_ = 0;
  Run(second, 4'800, base::Duration(0));
  engine_->Requeue(first, "", [](Result<Unit> done) { EXPECT_TRUE(done); });
  engine_->Turn();
  Open();
  EXPECT_EQ(engine_->scheduler().Find(second)->request->dependencies.at(0).known_final,
            core::TaskState::kSucceeded);
}

TEST_F(ObservationTest, ARunningTaskKeepsItsRunTimeIfTheClockWasSet) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(0));
  const std::string dir = fmt::format("{}/attempts/{}/1", state_dir_, id);
  const auto keep = [&](const std::string& boot_id) {
    const base::ProcessId self = base::SelfProcess();
    ASSERT_TRUE(base::MakeDirs(dir));
    ASSERT_TRUE(base::WriteFileAtomic(dir + "/owner", ToText(task::ShimOwner{self, boot_id})));
    ASSERT_TRUE(base::WriteFileAtomic(dir + "/started.json", ToText(task::ShimStarted{self})));
  };
  const core::TaskRecord before = *engine_->scheduler().Find(id);
  const base::Duration waited = *before.attempt->launched - before.submitted;
  const auto ran_s = [&](std::int64_t now_ms) {
    clock_ = base::FakeClock(base::FromMs(now_ms));
    Open();
    const core::TaskRecord& record = *engine_->scheduler().Find(id);
    EXPECT_LE(record.submitted, clock_.Now());
    EXPECT_EQ(record.attempt->started, record.attempt->launched) << "both are corrected";
    EXPECT_EQ(record.first_start, record.attempt->launched);
    EXPECT_EQ(*record.attempt->launched - record.submitted, waited);
    const core::TaskRecord stored = store_->Get(id)->record;
    EXPECT_EQ(stored.attempt->launched, record.attempt->launched) << "carma list shows this time";
    EXPECT_EQ(stored.submitted, record.submitted);
    return base::Seconds(clock_.Now() - *record.attempt->started);
  };
  keep(base::BootId());
  const double real_s = base::Seconds(*task::SinceStart(dir));
  EXPECT_NEAR(ran_s(3'600'000'000), real_s, 10) << "a thousand hours ahead";
  EXPECT_NEAR(ran_s(500'000), real_s, 10) << "set back";
  keep("an earlier boot");
  EXPECT_GT(ran_s(3'600'000'000), 3'000'000) << "the process did not start during this boot";
}

TEST_F(ObservationTest, NoEarlierAttemptStartsAfterALaterOneIfTheClockWasSetBack) {
  const core::TaskId id = Submit();
  strangers_ = 1;  // so the task is retried
  Run(id, 5'600, base::Duration(5'000));
  End(id, 1, "torch.cuda.OutOfMemoryError: CUDA out of memory.");
  Sample({});
  Run(id, 7'700, base::Duration(0));
  const std::string dir = fmt::format("{}/attempts/{}/2", state_dir_, id);
  const base::ProcessId self = base::SelfProcess();
  ASSERT_TRUE(base::MakeDirs(dir));
  ASSERT_TRUE(base::WriteFileAtomic(dir + "/owner", ToText(task::ShimOwner{self, base::BootId()})));
  ASSERT_TRUE(base::WriteFileAtomic(dir + "/started.json", ToText(task::ShimStarted{self})));
  clock_ = base::FakeClock(base::FromMs(500'000));
  Open();
  const core::TaskRecord record = store_->Get(id)->record;
  ASSERT_EQ(record.attempt->number, 2);
  ASSERT_LE(record.attempt->launched, clock_.Now());
  EXPECT_LE(record.first_start, record.attempt->launched);
  EXPECT_LE(record.submitted, record.first_start);
}

TEST_F(ObservationTest, AWarningIsSentBeforeItIsStored) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(0));
  core::TaskRequest request = engine_->scheduler().Find(id)->request;
  request.time_limit = base::Duration(100'000);
  request.signal_before = base::Duration(50'000);
  engine_->Post(core::TaskEdited{id, request});
  engine_->Turn();
  const std::string file = state_dir_ + "/carma.db";
  std::filesystem::rename(file, file + ".away");
  store_fails_ = true;
  clock_.Advance(base::Duration(60'000));
  engine_->Post(core::WakeUp{});
  engine_->Turn();
  EXPECT_EQ(warned_, 1);
  std::filesystem::rename(file + ".away", file);
  store_fails_ = false;
  engine_->Turn();
  EXPECT_TRUE(store_->Get(id)->record.attempt->warned);
  Open();
  EXPECT_EQ(warned_, 1) << "not again once it is stored";
}

TEST_F(ObservationTest, TheTimeWithoutADaemonIsNotChargedToALostTask) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(600'000));
  store::GpuUsage usage{.from = clock_.Now() - base::Duration(60'000), .to = clock_.Now()};
  usage.gpu_uuid = "GPU-0";
  engine_->AddUsage({usage}, {});
  engine_->Turn();
  const auto restart = [&] {
    clock_.Advance(std::chrono::hours(72));
    Open();
  };
  restart();
  Tell({.kind = task::ShimEventKind::kExited,
        .id = id,
        .attempt = 1,
        .lost = true,
        .ended_before_adoption = true});
  Sample({});
  ASSERT_EQ(started_, 2) << "the task was not started again";
  restart();
  Tell({.kind = task::ShimEventKind::kLaunchFailed,
        .id = id,
        .attempt = 2,
        .interrupted = true,
        .ended_before_adoption = true});
  const std::vector<store::EndedAttempt> ended = store_->Attempts(base::Time{}).value();
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].taken.to, usage.to);
  EXPECT_LT(ended[1].taken.to - ended[1].taken.from, std::chrono::minutes(1));
}

TEST_F(ObservationTest, UsageOfManyDaysCountsAfterARestart) {
  ASSERT_TRUE(store_->Begin());
  for (const int days : {29, 10, 0}) {
    const base::Time end = clock_.Now() - std::chrono::hours(24 * days);
    const core::Taken taken{1000, "ada", "", "", 1, 1, end - std::chrono::hours(10), end};
    ASSERT_TRUE(store_->PutAttempt({.task = core::TaskId{1}, .number = days, .taken = taken}));
  }
  ASSERT_TRUE(store_->Commit());
  limits_ = {{.user = "ada", .gpu_hours = 30, .period = std::chrono::hours(24 * 30)}};
  Open();
  Submit();
  EXPECT_EQ(started_, 0);
}

TEST_F(ObservationTest, ARunningTaskKeepsItsGpuIfTheNumbersChange) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(0));
  gpus_.insert(gpus_.begin(), core::GpuInfo{"GPU-new", "A100", 41'000, 1'000});
  Open();
  EXPECT_EQ(store_->Get(id)->record.attempt->placement.front().gpu, core::GpuIndex{1})
      << "carma list shows this number";
  EXPECT_EQ(store_->Get(id)->gpu_uuids.front(), "GPU-0");
}

TEST_F(ObservationTest, NoTimeIsInTheFutureIfTheClockWasSetBack) {
  const core::TaskId pauses = Submit();
  Tell({.kind = task::ShimEventKind::kLaunchFailed, .id = pauses, .attempt = 1, .waits = true});
  const core::TaskId starts = Submit();  // no file contains the start time, as with a lease
  const base::Time ahead = clock_.Now();
  ASSERT_GT(store_->Get(pauses)->record.not_before, ahead);
  ASSERT_EQ(store_->Get(starts)->record.attempt->launched, ahead);
  clock_ = base::FakeClock(ahead - base::Duration(500'000));
  Open();
  EXPECT_LT(engine_->scheduler().Find(pauses)->not_before, ahead) << "the pause lasts only seconds";
  EXPECT_LE(engine_->scheduler().Find(starts)->attempt->launched, clock_.Now());
}

TEST_F(ObservationTest, ATaskKeepsItsLaunchIfItsStartWasSeenLate) {
  const core::TaskId id = Submit();
  const base::Time launched = *engine_->scheduler().Find(id)->attempt->launched;
  clock_.Advance(base::Duration(100'000));
  Run(id, 4'800, base::Duration(0));
  const std::string dir = fmt::format("{}/attempts/{}/1", state_dir_, id);
  base::ProcessId process = base::SelfProcess();
  ASSERT_TRUE(base::MakeDirs(dir));
  ASSERT_TRUE(
      base::WriteFileAtomic(dir + "/owner", ToText(task::ShimOwner{process, base::BootId()})));
  process.start_ticks = static_cast<std::uint64_t>((base::BootTimeNs() / 1'000'000'000 - 50) *
                                                   ::sysconf(_SC_CLK_TCK));
  ASSERT_TRUE(base::WriteFileAtomic(dir + "/started.json", ToText(task::ShimStarted{process})));
  const base::Time seen = *engine_->scheduler().Find(id)->attempt->started;
  Open();
  EXPECT_EQ(engine_->scheduler().Find(id)->attempt->launched, launched);
  EXPECT_EQ(engine_->scheduler().Find(id)->attempt->started, seen);
}

TEST_F(ObservationTest, WaitingTasksKeepTheirOrderIfTheClockWasBehind) {
  Submit();
  const core::TaskId second = Submit(36'000);
  const base::Time submitted = engine_->scheduler().Find(second)->submitted;
  clock_ = base::FakeClock(base::FromMs(500'000));
  Open();
  const core::TaskId third = Submit(36'000);
  clock_ = base::FakeClock(base::FromMs(2'000'000));
  Open();
  EXPECT_EQ(engine_->scheduler().Find(second)->submitted, submitted);
  EXPECT_EQ(engine_->scheduler().Find(third)->submitted, submitted);
  EXPECT_EQ(store_->Get(third)->record.submitted, submitted) << "carma list shows this time";
}

TEST_F(ObservationTest, WaitingTasksKeepTheirWaitIfTheClockWasAheadBefore) {
  Submit();
  const core::TaskId ahead = Submit(36'000);
  const base::Time wrong = engine_->scheduler().Find(ahead)->submitted;
  clock_ = base::FakeClock(wrong - base::Duration(900'000));
  Open();
  const core::TaskId right = Submit(36'000);
  const base::Time submitted = engine_->scheduler().Find(right)->submitted;
  clock_.Advance(base::Duration(600'000));
  Open();
  EXPECT_EQ(engine_->scheduler().Find(right)->submitted, submitted);
  EXPECT_EQ(engine_->scheduler().Find(right)->queued_since, submitted);
}

TEST_F(ObservationTest, TasksKeepTheirWaitIfTheClockWasAheadBeforeThem) {
  Submit();
  clock_ = base::FakeClock(base::FromMs(9'000'000));
  const core::TaskId early = Submit(36'000);
  clock_ = base::FakeClock(base::FromMs(2'000'000));
  Open();
  const core::TaskId second = Submit(36'000);
  const base::Time submitted = engine_->scheduler().Find(second)->submitted;
  clock_ = base::FakeClock(base::FromMs(3'000'000));
  Open();
  EXPECT_EQ(engine_->scheduler().Find(second)->submitted, submitted);
  EXPECT_EQ(engine_->scheduler().Find(early)->submitted, submitted);
}

TEST_F(ObservationTest, ForgettingTheCalibrationIsDurable) {
  const core::TaskId id = Submit();
  Run(id, 4'800, base::Duration(60'000));
  End(id, 0);
  bool done = false;
  engine_->ForgetCalibration([&](Result<Unit> result) { done = result.has_value(); });
  engine_->Turn();
  EXPECT_TRUE(done);
  EXPECT_EQ(Kept().front().formula, std::nullopt);
  EXPECT_EQ(history_->OfSignature(Kept().front().signature).front().formula, std::nullopt);
}

}  // namespace
}  // namespace carma::daemon

#include "daemon/engine/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "base/fake_clock.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string NewIntakeFolder() {
  std::string folder = ::testing::TempDir() + "/carma-intake-XXXXXX";
  return ::mkdtemp(folder.data());
}

class IntakeTest : public ::testing::Test {
 protected:
  IntakeTest() {
    options_.max_queued_tasks = 3;
    core_.Handle(clock_.Now(), core::GpusDiscovered{{{"GPU-0", "A100", 41'000, 1'000}}});
    EXPECT_TRUE(intake_.Open());
  }
  ~IntakeTest() override {
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }
  static task::TaskSpec Spec(std::int64_t memory_mib = 5'000) {
    task::TaskSpec spec;
    spec.name = "train";
    spec.command = {"python"};
    spec.workdir = "/";
    spec.stdout_path = "/out/%j";
    spec.memory_mib = memory_mib;
    spec.environment = {{"A", "1"}};
    return spec;
  }
  Result<std::vector<core::Event>> Accept(Intake& intake) {
    std::vector<core::Event> events;
    const Result<Unit> accepted = intake.AcceptShare(events);
    if (!accepted) return std::unexpected(accepted.error());
    return events;
  }
  Result<std::vector<core::Event>> Accept() { return Accept(intake_); }
  void Submit(std::vector<task::TaskSpec> specs) {
    intake_.Submit(std::move(specs), {1000, 100, "ada"},
                   [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  }

  std::string state_dir_ = NewIntakeFolder();
  std::unique_ptr<store::Store> store_ = store::Store::Open(state_dir_).value();
  EngineOptions options_;
  core::Scheduler core_{core::PolicyConfig{}};
  base::FakeClock clock_{base::FromMs(1'000)};
  Intake intake_{options_, *store_, core_, clock_};
  std::vector<Result<Submitted>> answers_;
};

TEST_F(IntakeTest, StoresNumbersAndAnswersAcceptedTasks) {
  Submit({Spec(), Spec()});
  EXPECT_TRUE(answers_.empty()) << "it is answered only once it is durable";
  const Result<std::vector<core::Event>> accepted = Accept();
  ASSERT_TRUE(accepted);
  ASSERT_EQ(accepted->size(), 2U);
  EXPECT_EQ(std::get<core::TaskSubmitted>((*accepted)[1]).id, core::TaskId{2});
  ASSERT_TRUE(answers_.at(0));
  EXPECT_EQ(answers_[0]->first, core::TaskId{1});
  EXPECT_EQ(answers_[0]->count, 2U);
  EXPECT_EQ(store_->Get(core::TaskId{2})->stdout_path, "/out/2");
  EXPECT_TRUE(Accept()->empty());
  EXPECT_EQ(intake_.accepted(), 2U);
}

TEST_F(IntakeTest, JudgesEachSubmissionSeparately) {
  task::TaskSpec orphan = Spec();
  orphan.dependencies = {{core::TaskId{77}, core::DependencyKind::kAfterOk, {}}};
  Submit({});
  Submit({Spec(50'000)});
  Submit({orphan});
  Submit({Spec()});
  Submit({Spec(), Spec(), Spec()});
  EXPECT_EQ(Accept()->size(), 1U);
  ASSERT_EQ(answers_.size(), 5U);
  EXPECT_EQ(answers_[0].error().code, ErrorCode::kInvalid);
  EXPECT_THAT(answers_[1].error().message, HasSubstr("can never run here"));
  EXPECT_EQ(answers_[2].error().code, ErrorCode::kNotFound);
  EXPECT_EQ(answers_[3]->first, core::TaskId{1}) << "refused submissions use no numbers";
  EXPECT_THAT(answers_[4].error().message, HasSubstr("more than 3 tasks"));
}

TEST_F(IntakeTest, WarnsIfAnotherUnfinishedTaskWritesTheOutputFile) {
  options_.max_queued_tasks = 100;
  task::TaskSpec log = Spec();
  log.stdout_path = "/out/log";
  const auto warning = [&](const std::vector<task::TaskSpec>& specs) {
    Submit(specs);
    EXPECT_TRUE(Accept());
    return answers_.back() ? answers_.back()->warning : answers_.back().error().message;
  };
  EXPECT_EQ(warning({log, log}), "") << "carma submit itself warns about an array";
  EXPECT_EQ(warning({log}), "tasks 2 and 3 both write to /out/log; use %j in the file name");
  task::TaskSpec errors = Spec();
  errors.stderr_path = "/out/log";
  EXPECT_THAT(warning({errors}), HasSubstr("tasks 3 and 4 both write"));
  EXPECT_EQ(warning({Spec()}) + warning({Spec()}), "");
  task::TaskSpec appends = log;
  appends.append_output = true;
  EXPECT_EQ(warning({appends}), "");
  intake_.Submit({log}, {1001, 100, "eve"},
                 [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  EXPECT_TRUE(Accept());
  EXPECT_EQ(answers_.back()->warning, "") << "the other task belongs to another user";
  EXPECT_THAT(warning({log}), HasSubstr("tasks 7 and 9 both write"))
      << "the last task of this user, which appends";
  store::StoredTask ended = store_->Get(core::TaskId{9}).value();
  ASSERT_EQ(ended.stdout_path, "/out/log");
  ended.record.state = core::TaskState::kSucceeded;
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->PutRecord(ended.record, {}));
  ASSERT_TRUE(store_->Commit());
  EXPECT_EQ(warning({log}), "");
}

TEST_F(IntakeTest, WarnsOfOutputFilesOfTasksFromBeforeARestart) {
  task::TaskSpec log = Spec();
  log.stdout_path = "/out/log";
  Submit({log, Spec()});
  ASSERT_TRUE(Accept());
  Intake restarted(options_, *store_, core_, clock_);
  ASSERT_TRUE(restarted.Open());
  for (const std::uint64_t id : {1, 2})
    restarted.NoteOutputs(store_->Get(core::TaskId{id}).value());
  std::string warning;
  restarted.Submit({log}, {1000, 100, "ada"},
                   [&](const Result<Submitted>& answer) { warning = answer.value().warning; });
  ASSERT_TRUE(Accept(restarted));
  EXPECT_EQ(warning, "tasks 1 and 3 both write to /out/log; use %j in the file name");
}

TEST_F(IntakeTest, ForgetsOutputFilesBeyondALimit) {
  options_.max_queued_tasks = options_.turn_share = 50'000;
  const auto warning = [&](const std::vector<task::TaskSpec>& specs) {
    Submit(specs);
    EXPECT_TRUE(Accept());
    return answers_.back() ? answers_.back()->warning : answers_.back().error().message;
  };
  task::TaskSpec first = Spec();
  first.stdout_path = "/out/first";
  std::vector<task::TaskSpec> others(20'000, Spec());
  for (std::size_t i = 0; i < others.size(); ++i)
    others[i].stdout_path = "/out/log" + std::to_string(i);
  EXPECT_EQ(warning({first}) + warning(others) + warning({first}), "");
  EXPECT_THAT(warning({first}), HasSubstr("both write to /out/first"));
}

TEST_F(IntakeTest, OneUserCannotFillTheQueue) {
  options_.max_queued_tasks = 100;
  options_.max_queued_per_user = 2;
  core_.Handle(clock_.Now(), core::TaskSubmitted{core::TaskId{1}, task::ToRequest(Spec(), 1000)});
  core_.Handle(clock_.Now(), core::TaskSubmitted{core::TaskId{2}, task::ToRequest(Spec(), 1000)});
  Submit({Spec()});
  intake_.Submit({Spec()}, {1001, 100, "eve"},
                 [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  ASSERT_TRUE(Accept());
  EXPECT_EQ(answers_.at(0).error().code, ErrorCode::kConflict);
  EXPECT_THAT(answers_[0].error().message, HasSubstr("user ada may have at most 2 queued tasks"));
  EXPECT_TRUE(answers_.at(1));
}

TEST_F(IntakeTest, ANamedSubmissionIsAcceptedOnce) {
  const auto submit = [&](std::uint32_t uid, std::size_t count) {
    intake_.Submit(std::vector<task::TaskSpec>(count, Spec()), {uid, 100, "ada", "", "r-1"},
                   [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  };
  submit(1000, 1);
  submit(1000, 1);
  EXPECT_EQ(Accept()->size(), 1U) << "even in the same turn";
  EXPECT_EQ(answers_.at(1)->first, core::TaskId{1});
  EXPECT_EQ(answers_.at(1)->count, 1U);
  Intake later{options_, *store_, core_, clock_};  // the next run of the daemon
  ASSERT_TRUE(later.Open());
  later.Submit({Spec()}, {1000, 100, "ada", "", "r-1"},
               [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  EXPECT_TRUE(Accept(later)->empty());
  EXPECT_EQ(answers_.at(2)->first, core::TaskId{1});
  submit(1000, 2);
  submit(1001, 1);
  EXPECT_EQ(Accept()->size(), 1U);
  EXPECT_EQ(answers_.at(3).error().code, ErrorCode::kConflict) << "another submission";
  EXPECT_EQ(answers_.at(4)->first, core::TaskId{2}) << "each user's names are separate";
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->ForgetRequests(clock_.Now() + base::Duration(1)));
  ASSERT_TRUE(store_->Commit());
  submit(1000, 1);
  EXPECT_EQ(Accept()->size(), 1U);
}

TEST_F(IntakeTest, ReadsEstimateJobsFromMemoryThenFromTheStore) {
  Submit({Spec()});
  ASSERT_TRUE(Accept());
  EXPECT_TRUE(intake_.JobForEstimate(core::TaskId{1})->spec.environment.empty()) << "from memory";
  const Result<EstimateJob> read = intake_.JobForEstimate(core::TaskId{1});
  EXPECT_EQ(read->spec.environment.size(), 1U);
  EXPECT_EQ(read->uid, 1000U);
  EXPECT_EQ(read->gid, 100U);
  EXPECT_FALSE(intake_.JobForEstimate(core::TaskId{9}));
}

TEST_F(IntakeTest, KeepsNothingForEstimatesOfTasksWithoutGpus) {
  task::TaskSpec spec = Spec();
  spec.gpus = 0;
  Submit({spec});
  ASSERT_TRUE(Accept());
  EXPECT_FALSE(intake_.JobForEstimate(core::TaskId{1})->spec.environment.empty())
      << "it is read from the store, which would contain an edit of its GPUs";
}

// Returns the task numbers in these TaskSubmitted events.
std::vector<std::uint64_t> Numbers(const Result<std::vector<core::Event>>& events) {
  std::vector<std::uint64_t> numbers;
  for (const core::Event& event : events.value())
    numbers.push_back(core::Number(std::get<core::TaskSubmitted>(event).id));
  return numbers;
}

TEST_F(IntakeTest, ChecksLimitsAndAccountsAtSubmission) {
  options_.max_queued_tasks = 100;
  core::PolicyConfig policy;
  policy.accounts = {{"vision", {"ada"}}};
  policy.limits = {*core::ParseLimitRule("user=* queued=2"),
                   *core::ParseLimitRule("user=* length=1h gpus=1")};
  core_.Handle(clock_.Now(), core::PolicyChanged{policy});
  task::TaskSpec booked = Spec();
  booked.account = "vision";
  task::TaskSpec strange = Spec();
  strange.account = "nlp";
  task::TaskSpec unknown = Spec();
  unknown.qos = "urgent";
  task::TaskSpec wide = Spec();
  wide.gpus = 2;
  task::TaskSpec slow = Spec();
  slow.time_limit = core::Duration(7'200'000);
  for (const task::TaskSpec& spec : {strange, unknown, wide, slow, booked}) Submit({spec});
  task::TaskSpec soon = Spec();
  soon.qos = "interactive";
  Submit({Spec(), soon});  // three tasks, including the earlier one
  EXPECT_EQ(Accept()->size(), 1U);
  ASSERT_EQ(answers_.size(), 6U);
  EXPECT_EQ(answers_[0].error().code, ErrorCode::kDenied);
  EXPECT_EQ(answers_[1].error().code, ErrorCode::kInvalid);
  EXPECT_THAT(answers_[2].error().message, HasSubstr("of 1 allowed GPU is in use"));
  EXPECT_THAT(answers_[3].error().message,
              HasSubstr("asks for 2:00:00, but may run for at most 1:00:00"));
  ASSERT_TRUE(answers_[4]);
  EXPECT_THAT(answers_[5].error().message, HasSubstr("each user: user=* queued=2"));
  const core::TaskRequest kept = store_->Get(answers_[4]->first)->record.request;
  EXPECT_EQ(kept.account, "vision");
  EXPECT_EQ(kept.time_limit, core::Duration(3'600'000))
      << "a task without a time limit gets the longest one";
}

TEST_F(IntakeTest, AnEditIsNotJudgedByRulesThatItDoesNotTouch) {
  core::PolicyConfig policy;
  policy.accounts = {{"vision", {"ada"}}};
  core_.Handle(clock_.Now(), core::PolicyChanged{policy});
  task::TaskSpec spec = Spec();
  spec.account = "vision";
  Submit({spec});
  ASSERT_EQ(Accept()->size(), 1U);
  const core::TaskRecord record = store_->Get(core::TaskId{1})->record;
  const task::TaskSpec was = spec;
  policy.accounts.clear();
  policy.limits = {*core::ParseLimitRule("user=* length=1h gpus=1")};
  core_.Handle(clock_.Now(), core::PolicyChanged{policy});
  spec.priority = -5;
  const auto edited = intake_.CheckEdit(record, was, spec);
  ASSERT_TRUE(edited) << edited.error().message;
  EXPECT_FALSE((*edited)->time_limit) << "it may have run for more than an hour";
  spec.time_limit = core::Duration(7'200'000);
  EXPECT_THAT(intake_.CheckEdit(record, was, spec).error().message, HasSubstr("at most 1:00:00"));
  spec.time_limit = core::Duration(1'800'000);
  EXPECT_TRUE(intake_.CheckEdit(record, was, spec));
  spec.account = "nlp";
  EXPECT_EQ(intake_.CheckEdit(record, was, spec).error().code, ErrorCode::kDenied);
  spec.account.reset();
  spec.time_limit.reset();
  core::TaskRecord running = record;
  running.state = core::TaskState::kRunning;
  running.attempt.Edit().started = clock_.Now() - core::Duration(7'200'000);
  EXPECT_EQ(
      intake_.CheckEdit(running, was, spec).error().message,
      "task 1 has already run for 2:00:00, so a time limit of 1:00:00 would end it immediately "
      "(to end it, use carma cancel 1)");
  policy.limits.clear();
  core_.Handle(clock_.Now(), core::PolicyChanged{policy});
  spec.time_limit = core::Duration(1'800'000);
  EXPECT_EQ(intake_.CheckEdit(running, was, spec).error().code, ErrorCode::kConflict);
  spec.time_limit = core::Duration(7'500'000);
  EXPECT_TRUE(intake_.CheckEdit(running, was, spec));
}

class LargeSubmissionTest : public IntakeTest {
 protected:
  LargeSubmissionTest() {
    options_.max_queued_tasks = 100;
    options_.turn_share = 2;
  }
  void SubmitFive(task::TaskSpec last = Spec()) { Submit({Spec(), Spec(), Spec(), Spec(), last}); }
  // Calls Accept() until a submission is answered or a task reaches the core.
  Result<std::vector<core::Event>> AcceptUntilNews() {
    while (intake_.HasMore()) {
      Result<std::vector<core::Event>> events = Accept();
      if (!events || !events->empty() || !answers_.empty()) return events;
    }
    return std::vector<core::Event>{};
  }
};

TEST_F(LargeSubmissionTest, IsStoredInPiecesButVisibleOnlyAsAWhole) {
  SubmitFive();
  int shares = 0;
  while (answers_.empty()) {
    EXPECT_TRUE(store_->List({})->empty());
    EXPECT_TRUE(store_->Counts()->empty());
    ASSERT_TRUE(intake_.HasMore());
    const auto told = Accept();
    ++shares;
    if (answers_.empty()) {
      EXPECT_TRUE(told->empty());
    } else {
      EXPECT_THAT(Numbers(told), ElementsAre(1, 2));
    }
  }
  EXPECT_EQ(shares, 6) << "three to check it, three to store it";
  EXPECT_EQ(answers_[0]->first, core::TaskId{1});
  EXPECT_EQ(answers_[0]->count, 5U);
  EXPECT_EQ(store_->List({})->size(), 5U);
  EXPECT_FALSE(intake_.IsUntold(core::TaskId{2}));
  EXPECT_TRUE(intake_.IsUntold(core::TaskId{3}));
  EXPECT_TRUE(intake_.IsUntold(core::TaskId{5}));
  EXPECT_FALSE(intake_.IsUntold(core::TaskId{6}));
  EXPECT_THAT(Numbers(Accept()), ElementsAre(3, 4));
  EXPECT_THAT(Numbers(Accept()), ElementsAre(5));
  EXPECT_FALSE(intake_.HasMore());
  EXPECT_EQ(intake_.JobForEstimate(core::TaskId{5})->spec.name, "train");
}

TEST_F(LargeSubmissionTest, OtherSubmissionsAreAcceptedInBetween) {
  SubmitFive();
  Submit({Spec()});
  EXPECT_THAT(Numbers(Accept()), ElementsAre(1));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0]->count, 1U);
  answers_.clear();
  EXPECT_THAT(Numbers(AcceptUntilNews()), ElementsAre(2, 3));
  EXPECT_EQ(answers_.at(0)->first, core::TaskId{2});
  Submit({Spec()});
  EXPECT_THAT(Numbers(Accept()), ElementsAre(7, 4, 5))
      << "even while tasks are still being sent to the core";
}

TEST_F(LargeSubmissionTest, ARefusalInTheMiddleLeavesNoTasks) {
  SubmitFive(Spec(50'000));
  EXPECT_TRUE(AcceptUntilNews()->empty());
  EXPECT_THAT(answers_.at(0).error().message, HasSubstr("can never run here"));
  EXPECT_FALSE(intake_.HasMore());
  Submit({Spec()});
  EXPECT_THAT(Numbers(Accept()), ElementsAre(1)) << "the refused submission used no number";
}

TEST_F(LargeSubmissionTest, ADaemonThatEndsInTheMiddleHasAcceptedNothing) {
  SubmitFive();
  for (int share = 0; share < 5; ++share) ASSERT_TRUE(Accept());
  ASSERT_TRUE(answers_.empty());
  Intake later{options_, *store_, core_, clock_};  // the next run of the daemon
  ASSERT_TRUE(later.Open());
  while (later.HasMore()) EXPECT_TRUE(Accept(later)->empty());
  EXPECT_TRUE(store_->List({})->empty());
  EXPECT_TRUE(store_->Arrivals()->empty());
  later.Submit({Spec()}, {1000, 100, "ada"},
               [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  EXPECT_THAT(Numbers(Accept(later)), ElementsAre(6)) << "numbers are never reused";
}

TEST_F(LargeSubmissionTest, AFailureOfTheStoreInTheMiddleRemovesAllTasks) {
  SubmitFive();
  for (int share = 0; share < 4; ++share) ASSERT_TRUE(Accept());
  intake_.RefuseAll({ErrorCode::kIo, "disk full"});
  EXPECT_THAT(answers_.at(0).error().message,
              HasSubstr("nothing was accepted, because the tasks cannot be stored: disk full"));
  while (intake_.HasMore()) EXPECT_TRUE(Accept()->empty());
  EXPECT_TRUE(store_->Arrivals()->empty());
}

TEST_F(LargeSubmissionTest, ItsNameIsTakenOnceTheLastPieceIsStored) {
  const auto submit = [&](std::size_t count) {
    intake_.Submit(std::vector<task::TaskSpec>(count, Spec()), {1000, 100, "ada", "", "r-1"},
                   [this](Result<Submitted> answer) { answers_.push_back(std::move(answer)); });
  };
  submit(5);
  submit(5);
  while (intake_.HasMore()) ASSERT_TRUE(Accept());
  EXPECT_EQ(answers_.at(0)->first, core::TaskId{1});
  EXPECT_EQ(answers_.at(1)->first, core::TaskId{1}) << "it repeats the first submission";
  answers_.clear();
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->ForgetRequests(clock_.Now() + base::Duration(1)));
  ASSERT_TRUE(store_->Commit());
  submit(5);
  for (int share = 0; share < 4; ++share) ASSERT_TRUE(Accept());
  submit(1);
  while (intake_.HasMore()) ASSERT_TRUE(Accept());
  EXPECT_EQ(answers_.at(0)->count, 1U);
  EXPECT_EQ(answers_.at(1).error().code, ErrorCode::kConflict);
  EXPECT_EQ(store_->List({})->size(), 6U);
}

TEST_F(LargeSubmissionTest, DependentTasksReachTheCoreAfterTheirDependency) {
  SubmitFive();
  ASSERT_TRUE(AcceptUntilNews());
  task::TaskSpec after = Spec();
  after.dependencies = {{core::TaskId{5}, core::DependencyKind::kAfterOk, {}}};
  Submit({after});
  EXPECT_THAT(Numbers(Accept()), ElementsAre(3, 4));
  EXPECT_TRUE(answers_.at(1)) << "it is accepted immediately";
  EXPECT_THAT(Numbers(Accept()), ElementsAre(5, 6));
}

TEST_F(LargeSubmissionTest, TasksNotYetInTheCoreCountForTheQueue) {
  options_.max_queued_per_user = 5;
  SubmitFive();
  ASSERT_TRUE(Accept());
  Submit({Spec()});
  ASSERT_TRUE(AcceptUntilNews());
  EXPECT_THAT(answers_.at(0).error().message,
              HasSubstr("user ada may have at most 5 queued tasks"));
}

TEST_F(LargeSubmissionTest, LongDescriptionsAndDependenciesCountLikeSeveralTasks) {
  task::TaskSpec script = Spec();
  script.script = std::string(20'000, 'x');
  task::TaskSpec patient = Spec();
  for (int i = 0; i < 3; ++i)
    patient.dependencies.push_back({core::TaskId{1}, core::DependencyKind::kAfterAny, {}});
  Submit({Spec()});
  ASSERT_TRUE(Accept());
  for (const task::TaskSpec& heavy : {script, patient}) {
    answers_.clear();
    Submit({heavy, heavy});
    ASSERT_TRUE(Accept());
    EXPECT_TRUE(answers_.empty());
    while (intake_.HasMore()) ASSERT_TRUE(Accept());
    EXPECT_TRUE(answers_.at(0));
  }
}

class NotifiedIntakeTest : public LargeSubmissionTest {
 protected:
  NotifiedIntakeTest() {
    spec_.notify = {{.target = "me"}};
    intake_.OnNotify([this](const core::TaskSubmitted& task) { notified_.push_back(task.id); });
  }
  task::TaskSpec spec_ = Spec();
  std::vector<core::TaskId> notified_;
};

TEST_F(NotifiedIntakeTest, TasksRefusedBecauseTheDiskIsFullRequestNoNotices) {
  Submit({Spec()});
  ASSERT_TRUE(Accept());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{0, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  Submit({spec_, spec_});
  const bool accepted = Accept().has_value();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_FALSE(accepted);
  EXPECT_THAT(notified_, IsEmpty());
  Submit({spec_});
  ASSERT_TRUE(Accept());
  EXPECT_THAT(notified_, ElementsAre(core::TaskId{2})) << "it has the number of a refused task";
}

TEST_F(NotifiedIntakeTest, ALargeSubmissionRequestsNoticesOnceItIsAccepted) {
  const std::vector<task::TaskSpec> five(5, spec_);
  Submit(five);
  for (int share = 0; share < 4; ++share) ASSERT_TRUE(Accept());
  intake_.RefuseAll({ErrorCode::kIo, "disk full"});
  EXPECT_THAT(notified_, IsEmpty());
  Submit(five);
  while (intake_.HasMore()) ASSERT_TRUE(Accept());
  EXPECT_EQ(notified_.size(), 5U);
}

TEST_F(IntakeTest, RefusesWaitingSubmissionsWhileTheDiskIsFull) {
  Submit({Spec()});
  intake_.RefuseAll({ErrorCode::kIo, "disk full"});
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].error().message,
            "nothing was accepted, because the tasks cannot be stored: disk full");
  EXPECT_TRUE(Accept()->empty());
}

}  // namespace
}  // namespace carma::daemon

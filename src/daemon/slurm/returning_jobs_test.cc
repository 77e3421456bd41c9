#include "daemon/slurm/returning_jobs.h"

#include <boost/asio/post.hpp>

#include "daemon/slurm/slurm_programs_fixture.h"

namespace carma::daemon {
namespace {

constexpr core::TaskId kReturning{7};

class ReturningJobsTest : public SlurmProgramsFixture {
 protected:
  void SetUp() override {
    SlurmProgramsFixture::SetUp();
    Open();
    const slurm::JobReturn back{.job = 10, .retries = 3, .claim_gib = 15, .comment = "carma: more"};
    row_ = RowOf(kReturning, back);
  }
  void TearDown() override {
    returning_.reset();
    SlurmProgramsFixture::TearDown();
  }

  // Starts a new run of the daemon, which continues from the state that the previous run stored.
  void Open() {
    returning_.reset();
    NewLoop();
    const ReturningJobsOptions options{.look_again = std::chrono::milliseconds(1),
                                       .after_failure = std::chrono::milliseconds(1),
                                       .watch = std::chrono::milliseconds(1)};
    returning_ = std::make_unique<ReturningJobs>(
        loop_, Programs(), options,
        [this](store::JobReturnRow row, const std::string& told, auto done) {
          row_ = std::move(row);
          if (!told.empty()) told_.push_back(told);
          ++kept_;
          boost::asio::post(*loop_, [done] { done(Unit{}); });
        },
        [this](core::TaskId) { return runs_; });
  }
  bool RunToTheEnd() {
    return RunUntil([this] { return returning_->size() == 0; });
  }

  std::unique_ptr<ReturningJobs> returning_;
  store::JobReturnRow row_;
  std::vector<std::string> told_;
  int kept_ = 0;
  bool runs_ = false;
};

TEST_F(ReturningJobsTest, RequeuesAJobStepByStep) {
  returning_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("asked"),
            "requeuehold 10\nupdate JobId=10 Gres=carma:15 AdminComment=carma: more, retry 1 of "
            "3\nrelease 10\n");
  EXPECT_EQ(Read("job"), "PENDING|1|15|BeginTime\n");
  EXPECT_FALSE(row_.description);
  EXPECT_EQ(told_, (std::vector<std::string>{"carma: more, retry 1 of 3",
                                             "job 10 is back in Slurm's queue"}));
}

TEST_F(ReturningJobsTest, HoldsAJobUntilSlurmHasRequeuedIt) {
  EXPECT_TRUE(returning_->Holds(kReturning)) << "even before it receives the row";
  returning_->Take(row_);
  EXPECT_TRUE(returning_->Holds(kReturning));
  ASSERT_TRUE(RunUntil([&] { return !Read("asked").empty(); }));
  ASSERT_TRUE(RunUntil([&] { return !returning_->Holds(kReturning); }));
  EXPECT_GT(returning_->size(), 0u) << "there is more to do, but the job may end";
}

TEST_F(ReturningJobsTest, ContinuesAfterACrashAtAnyStep) {
  for (int deaths = 1; deaths < 6; ++deaths) {
    WriteText("job", "RUNNING|0|10|None\n");
    row_ = RowOf(kReturning, {.job = 10, .retries = 3, .claim_gib = 15, .comment = "carma: more"});
    Open();
    kept_ = 0;
    returning_->Take(row_);
    ASSERT_TRUE(RunUntil([&] { return kept_ >= deaths || returning_->size() == 0; }));
    Open();
    returning_->Take(row_);
    ASSERT_TRUE(RunToTheEnd());
    EXPECT_EQ(Read("job"), "PENDING|1|15|BeginTime\n") << deaths;
  }
}

TEST_F(ReturningJobsTest, GivesUpAndReportsPermanentRefusals) {
  WriteProgram("scontrol", "#!/bin/sh\necho no\nexit 1\n");
  returning_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_.back(), "job 10 is not requeued: Slurm refuses to change the job");
}

TEST_F(ReturningJobsTest, ReleasesAJobEvenIfSlurmDoesNotRaiseItsClaim) {
  WriteText("job", "PENDING|1|10|job requeued in held state\n");
  WriteProgram("scontrol",
               "#!/bin/sh\n[ $1 = release ] || exit 1\n"
               "echo 'PENDING|1|10|BeginTime' > DIR/job\n");
  row_ = RowOf(kReturning,
               {.job = 10, .restart = 0, .claim_gib = 15, .step = slurm::ReturnStep::kRaise});
  returning_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("job"), "PENDING|1|10|BeginTime\n");
}

TEST_F(ReturningJobsTest, ForgetsAJobThatNoLongerExists) {
  std::filesystem::remove(folder_ + "/job");
  returning_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(told_,
            (std::vector<std::string>{"job 10 is not requeued: Slurm no longer lists the job"}));
}

TEST_F(ReturningJobsTest, WaitsForAControllerThatDoesNotAnswer) {
  WriteProgram("squeue", "#!/bin/sh\necho x >> DIR/looks\nexit 1\n");
  returning_->Take(row_);
  ASSERT_TRUE(RunUntil([this] { return Read("looks").size() > 6; }));
  WriteProgram("squeue", kSqueue);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("job"), "PENDING|1|15|BeginTime\n");
}

class LeavingJobTest : public ReturningJobsTest {
 protected:
  static constexpr const char* kExcludes = R"(#!/bin/sh
echo "$*" >> DIR/asked
IFS='|' read state restarts gib reason < DIR/job
case "$*" in
requeuehold*) echo "PENDING|1|$gib|job requeued in held state" > DIR/job ;;
*ExcNodeList=n0*) echo n0 > DIR/excluded ;;
*ExcNodeList=) rm DIR/excluded ;;
release*) echo "$state|$restarts|$gib|BeginTime" > DIR/job ;;
esac
)";
  void SetUp() override {
    ReturningJobsTest::SetUp();
    WriteProgram("scontrol", kExcludes);
    row_ = RowOf(kReturning, {.job = 10, .comment = "carma: waited", .exclude = "n0"});
  }
};

TEST_F(LeavingJobTest, IsSentToAnotherNodeAndWatched) {
  returning_->Take(row_);
  EXPECT_TRUE(returning_->Leaves(kReturning)) << "its lease is not adopted";
  EXPECT_TRUE(returning_->SendsElsewhere());
  ASSERT_TRUE(RunUntil([this] { return !returning_->Leaves(kReturning); }));
  EXPECT_EQ(Read("asked"),
            "requeuehold 10\nupdate JobId=10 ExcNodeList=n0 AdminComment=carma: waited\n"
            "release 10\n");
  EXPECT_TRUE(returning_->SendsElsewhere()) << "it has not started there yet";
  WriteText("job", "RUNNING|1|10|None\n");
  ASSERT_TRUE(RunUntil([this] { return !returning_->SendsElsewhere(); }));
  EXPECT_EQ(returning_->size(), 1u);
  WriteText("job", "PENDING|2|10|Resources\n");
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("excluded"), "");
  EXPECT_EQ(told_, std::vector<std::string>{"carma: waited"});
}

TEST_F(LeavingJobTest, StaysIfItRunsOrSlurmDoesNotAnswer) {
  runs_ = true;
  returning_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  runs_ = false;
  row_ = RowOf(kReturning, {.job = 10, .comment = "carma: waited", .exclude = "n0"});
  WriteProgram("squeue", "#!/bin/sh\nexit 1\n");
  returning_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("asked"), "");
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace carma::daemon

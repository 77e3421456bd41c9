#include "daemon/slurm_desk.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>

#include "base/file.h"

namespace carma::daemon {
namespace {

using base::Result;
using base::Unit;

constexpr core::TaskId kTask{7};
constexpr auto kLong = std::chrono::seconds(20);

// Slurm as two scripts: job 10, as its line stands in a file, and what was asked of it.
constexpr const char* kSqueue = R"(#!/bin/sh
[ -e DIR/job ] || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
IFS='|' read state restarts gib reason < DIR/job
echo "10|10|$state|$reason|1|1|$restarts|gres:carma:$gib|1|(null)|"
)";
constexpr const char* kScontrol = R"(#!/bin/sh
echo "$*" >> DIR/asked
IFS='|' read state restarts gib reason < DIR/job
case $1 in
requeuehold)
  [ "$state" = RUNNING ] || { echo "Job is pending execution for job 10"; exit 1; }
  echo "PENDING|1|$gib|job requeued in held state" > DIR/job ;;
update)
  [ "$3" = Gres=carma:15 ] || exit 1
  echo "$state|$restarts|15|$reason" > DIR/job ;;
release) echo "$state|$restarts|$gib|BeginTime" > DIR/job ;;
esac
)";

class SlurmDeskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-desk-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    Write("squeue", kSqueue);
    Write("scontrol", kScontrol);
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/job", "RUNNING|0|10|None\n", 0600));
    Open();
    const slurm::JobReturn back{.job = 10, .retries = 3, .claim_gib = 15, .comment = "carma: more"};
    row_ = RowOf(kTask, back);
  }
  void TearDown() override {
    desk_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Write(const std::string& name, std::string text) {
    for (std::size_t at = 0; (at = text.find("DIR", at)) != std::string::npos;)
      text.replace(at, 3, folder_);
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/" + name, text, 0700));
  }
  std::string Read(const std::string& name) {
    return base::ReadFile(folder_ + "/" + name, 100'000).value_or("");
  }

  // A daemon's life: its desk knows what the one before has kept.
  void Open() {
    desk_.reset();
    work_.reset();
    loop_ = std::make_shared<boost::asio::io_context>(1);
    work_.emplace(loop_->get_executor());
    SlurmDeskOptions options = options_;
    options.scontrol = folder_ + "/scontrol";
    options.squeue = folder_ + "/squeue";
    options.look_again = std::chrono::milliseconds(1);
    options.after_failure = std::chrono::milliseconds(1);
    desk_ = std::make_unique<SlurmDesk>(
        loop_, options, [this](store::JobReturnRow row, const std::string& told, auto done) {
          row_ = std::move(row);
          if (!told.empty()) told_.push_back(told);
          ++kept_;
          boost::asio::post(*loop_, [done] { done(Unit{}); });
        });
  }

  // False: not within the limit.
  template <class Condition>
  bool RunUntil(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (!condition() && std::chrono::steady_clock::now() < end) loop_->run_one_until(end);
    return condition();
  }
  bool RunToTheEnd() {
    return RunUntil([this] { return desk_->waiting() == 0; });
  }

  std::string folder_;
  SlurmDeskOptions options_;
  std::shared_ptr<boost::asio::io_context> loop_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::unique_ptr<SlurmDesk> desk_;
  store::JobReturnRow row_;
  std::vector<std::string> told_;
  int kept_ = 0;
};

TEST_F(SlurmDeskTest, PutsAJobBackStepByStep) {
  desk_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("asked"),
            "requeuehold 10\nupdate JobId=10 Gres=carma:15 AdminComment=carma: more, retry 1 of "
            "3\nrelease 10\n");
  EXPECT_EQ(Read("job"), "PENDING|1|15|BeginTime\n");
  EXPECT_FALSE(row_.description);
  EXPECT_EQ(told_, (std::vector<std::string>{"carma: more, retry 1 of 3",
                                             "job 10 is in Slurm's queue again"}));
}

TEST_F(SlurmDeskTest, HoldsAJobUntilSlurmKnowsThatItGoesBack) {
  EXPECT_TRUE(desk_->Holds(kTask)) << "of which it has not heard yet";
  desk_->Take(row_);
  EXPECT_TRUE(desk_->Holds(kTask));
  ASSERT_TRUE(RunUntil([&] { return !Read("asked").empty(); }));
  ASSERT_TRUE(RunUntil([&] { return !desk_->Holds(kTask); }));
  EXPECT_GT(desk_->waiting(), 0u) << "it is not done yet, and the job may end";
}

TEST_F(SlurmDeskTest, JobsThatWaitSayWhy) {
  Write("squeue", "#!/bin/sh\ncat DIR/line\n");
  Write("scontrol", "#!/bin/sh\necho \"$*\" >> DIR/asked\n");
  const auto comment = [&](const std::string& text) {
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/line",
                                      "10|10_3|RUNNING|None|1|1|0|N/A|1|" + text + "|\n", 0600));
  };
  comment("ada: mine");
  options_.waits_every = std::chrono::milliseconds(1);
  options_.wait_quiet = std::chrono::milliseconds(0);
  Open();
  int looks = 0;
  std::string why = "(WarmUp) a";
  desk_->TellWaiting("n1", [&] {
    ++looks;
    return std::vector<slurm::WaitingJob>{{10, why}};
  });
  ASSERT_TRUE(RunUntil([&] { return looks > 3; }));
  EXPECT_EQ(Read("asked"), "") << "what a person has written stays";
  comment("(null)");
  Open();
  desk_->TellWaiting("n1", [&] { return std::vector<slurm::WaitingJob>{{10, why}}; });
  ASSERT_TRUE(RunUntil([&] { return !Read("asked").empty(); }));
  EXPECT_EQ(Read("asked"),
            "update JobId=10_3 AdminComment=carma: waits on n1 for GPUs: (WarmUp) a\n");
}

TEST_F(SlurmDeskTest, GoesOnAfterADeathAtAnyStep) {
  for (int deaths = 1; deaths < 6; ++deaths) {
    ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/job", "RUNNING|0|10|None\n", 0600));
    row_ = RowOf(kTask, {.job = 10, .retries = 3, .claim_gib = 15, .comment = "carma: more"});
    Open();
    kept_ = 0;
    desk_->Take(row_);
    ASSERT_TRUE(RunUntil([&] { return kept_ >= deaths || desk_->waiting() == 0; }));
    Open();
    desk_->Take(row_);
    ASSERT_TRUE(RunToTheEnd());
    EXPECT_EQ(Read("job"), "PENDING|1|15|BeginTime\n") << deaths;
  }
}

TEST_F(SlurmDeskTest, WhatSlurmRefusesForEverIsGivenUpAndTold) {
  Write("scontrol", "#!/bin/sh\necho no\nexit 1\n");
  desk_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_.back(), "job 10 is not started again: Slurm refuses it");
}

TEST_F(SlurmDeskTest, AJobThatIsGoneIsLetGo) {
  std::filesystem::remove(folder_ + "/job");
  desk_->Take(row_);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(told_, (std::vector<std::string>{
                       "job 10 is not started again: Slurm does not know the job any more"}));
}

TEST_F(SlurmDeskTest, WaitsForAControllerThatDoesNotAnswer) {
  Write("squeue", "#!/bin/sh\necho x >> DIR/looks\nexit 1\n");
  desk_->Take(row_);
  ASSERT_TRUE(RunUntil([this] { return Read("looks").size() > 6; }));
  Write("squeue", kSqueue);
  ASSERT_TRUE(RunToTheEnd());
  EXPECT_EQ(Read("job"), "PENDING|1|15|BeginTime\n");
}

TEST_F(SlurmDeskTest, TellsWhatAJobClaims) {
  std::optional<std::int64_t> claim;
  bool told = false;
  const auto take = [&](std::optional<std::int64_t> gib) {
    claim = gib;
    told = true;
  };
  desk_->AskClaim(10, take);
  ASSERT_TRUE(RunUntil([&] { return told; }));
  EXPECT_EQ(claim, 10);
  told = false;
  std::filesystem::remove(folder_ + "/job");
  desk_->AskClaim(10, take);
  ASSERT_TRUE(RunUntil([&] { return told; }));
  EXPECT_FALSE(claim);
}

TEST_F(SlurmDeskTest, WhoAsksWhileOthersDoSharesTheNextQuestion) {
  Write("squeue",
        "#!/bin/sh\necho $5 >> DIR/looks\n"
        "for job in 10 11 12; do echo \"$job|$job|RUNNING|None|1|1|0|gres:carma:$job|1|(null)|\"; "
        "done\n");
  std::vector<std::int64_t> claims;
  for (const std::uint64_t job : {10, 11, 12, 13})
    desk_->AskClaim(job,
                    [&](std::optional<std::int64_t> gib) { claims.push_back(gib.value_or(0)); });
  ASSERT_TRUE(RunUntil([&] { return claims.size() == 4; }));
  EXPECT_EQ(claims, (std::vector<std::int64_t>{10, 11, 12, 0}));
  EXPECT_EQ(Read("looks"), "--jobs=10\n--jobs=11,12,13\n");
}

TEST(RunOfSlurm, ProgramsThatHangOrFailAreErrors) {
  EXPECT_FALSE(RunOfSlurm({"/bin/sleep", "1000"}, std::chrono::milliseconds(50)));
  const auto fails = RunOfSlurm({"/bin/sh", "-c", "echo why >&2; exit 3"}, kLong);
  ASSERT_FALSE(fails);
  EXPECT_EQ(fails.error().message, "/bin/sh: why");
  EXPECT_FALSE(RunOfSlurm({"/no/such/program"}, kLong));
  EXPECT_EQ(RunOfSlurm({"/bin/echo", "so"}, kLong).value_or(""), "so\n");
}

}  // namespace
}  // namespace carma::daemon

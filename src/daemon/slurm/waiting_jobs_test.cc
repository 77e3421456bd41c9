#include "daemon/slurm/waiting_jobs.h"

#include "daemon/slurm/slurm_programs_fixture.h"

namespace carma::daemon {
namespace {

class WaitingJobsTest : public SlurmProgramsFixture {
 protected:
  void SetUp() override {
    SlurmProgramsFixture::SetUp();
    WriteProgram("squeue", "#!/bin/sh\ncat DIR/line\n");
    WriteProgram("scontrol", "#!/bin/sh\necho \"$*\" >> DIR/asked\n");
  }
  void WriteComment(const std::string& text, const std::string& nodes = "1|gpu07") {
    WriteText("line",
              "10|10_3|RUNNING|None|1|1|0|N/A|" + nodes + "||main|(null)|cpu=1|9|" + text + "|\n");
  }
  // Only the first `most` calls list the job as waiting.
  std::unique_ptr<WaitingJobs> Watch(std::chrono::seconds quiet = {}, int most = 1'000'000) {
    return std::make_unique<WaitingJobs>(
        loop_, Programs(), WaitingJobsOptions{"vm", std::chrono::milliseconds(1), quiet},
        [this, most] {
          std::vector<slurm::WaitingJob> waiting;
          if (++looks_ <= most) waiting.push_back({10, "(WarmUp) a"});
          return waiting;
        });
  }
  int looks_ = 0;
};

TEST_F(WaitingJobsTest, ShowsTheReasonAndTheSlurmNode) {
  WriteComment("(null)");
  const auto watched = Watch();
  ASSERT_TRUE(RunUntil([&] { return !Read("asked").empty(); }));
  EXPECT_EQ(Read("asked"),
            "update JobId=10_3 AdminComment=carma: waiting for GPUs on gpu07: (WarmUp) a\n");
}

TEST_F(WaitingJobsTest, AddsTheReasonToACommentAboutARetry) {
  WriteComment("carma: out of GPU memory on gpu01, retry 1 of 3");
  const auto watched = Watch();
  ASSERT_TRUE(RunUntil([&] { return !Read("asked").empty(); }));
  EXPECT_EQ(Read("asked"),
            "update JobId=10_3 AdminComment=carma: out of GPU memory on gpu01, retry 1 of 3 | "
            "carma: waiting for GPUs on gpu07: (WarmUp) a\n");
}

TEST_F(WaitingJobsTest, EndsTheCommentOfAWaitThatBeganBeforeARestart) {
  WriteComment("carma: waiting for GPUs on gpu07: (WarmUp) a");
  const auto watched = Watch(std::chrono::hours(1), 1);
  ASSERT_TRUE(RunUntil([&] { return !Read("asked").empty(); }));
  EXPECT_EQ(Read("asked"), "update JobId=10_3 AdminComment=carma: waited for GPUs on gpu07\n");
}

TEST_F(WaitingJobsTest, KeepsTheCommentOfAWaitOnTheJobsOtherNode) {
  for (const auto quiet : {std::chrono::seconds(3600), std::chrono::seconds(0)}) {
    looks_ = 0;
    WriteComment("carma: waiting for GPUs on gpu08: (WarmUp) a", "2|gpu[07-08]");
    const auto watched = Watch(quiet, 1);
    ASSERT_TRUE(RunUntil([&] { return looks_ > 4; }));
    EXPECT_EQ(Read("asked").find("waited"), std::string::npos) << Read("asked");
  }
}

TEST_F(WaitingJobsTest, SetsNoCommentAfterAShortWait) {
  WriteComment("(null)");
  const auto watched = Watch(std::chrono::hours(1), 1);
  ASSERT_TRUE(RunUntil([&] { return looks_ > 4; }));
  EXPECT_EQ(Read("asked"), "");
}

TEST_F(WaitingJobsTest, KeepsCommentsByPeople) {
  WriteComment("ada: mine");
  const auto watched = Watch();
  ASSERT_TRUE(RunUntil([&] { return looks_ > 3; }));
  EXPECT_EQ(Read("asked"), "");
}

}  // namespace
}  // namespace carma::daemon

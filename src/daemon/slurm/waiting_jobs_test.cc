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
  void WriteComment(const std::string& text) {
    WriteText("line",
              "10|10_3|RUNNING|None|1|1|0|N/A|1|gpu07||main|(null)|cpu=1|9|" + text + "|\n");
  }
  std::unique_ptr<WaitingJobs> Watch() {
    return std::make_unique<WaitingJobs>(
        loop_, Programs(),
        WaitingJobsOptions{"vm", std::chrono::milliseconds(1), std::chrono::milliseconds(0)},
        [this] {
          ++looks_;
          return std::vector<slurm::WaitingJob>{{10, "(WarmUp) a"}};
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

TEST_F(WaitingJobsTest, KeepsCommentsByPeople) {
  WriteComment("ada: mine");
  const auto watched = Watch();
  ASSERT_TRUE(RunUntil([&] { return looks_ > 3; }));
  EXPECT_EQ(Read("asked"), "");
}

}  // namespace
}  // namespace carma::daemon

#include "daemon/slurm/leaving_jobs.h"

#include "daemon/slurm/slurm_programs_fixture.h"

namespace carma::daemon {
namespace {

using std::chrono::milliseconds;

constexpr core::TaskId kTask{7};

class LeavingJobsTest : public SlurmProgramsFixture {
 protected:
  void SetUp() override {
    SlurmProgramsFixture::SetUp();
    WriteProgram("scontrol", "#!/bin/sh\necho x >> DIR/looks\ncat DIR/nodes\n");
    WriteNodes("IDLE");
  }
  void WriteNodes(const std::string& state) {
    const std::string rest = " CPUTot=8 Gres=carma:40 GresUsed=carma:0 RealMemory=9000 State=";
    WriteText("nodes", "NodeName=n0" + rest + "MIXED Partitions=main\nNodeName=n1" + rest + state +
                           " Partitions=main\n");
  }
  std::unique_ptr<LeavingJobs> Watch(LeavingJobsOptions options) {
    return std::make_unique<LeavingJobs>(
        loop_, Programs(), options,
        LeavingJobs::Calls{.waiting =
                               [this] {
                                 ++looks_;
                                 return waiting_;
                               },
                           .busy = [this] { return busy_; },
                           .send =
                               [this](core::TaskId, const slurm::JobReturn& plan, auto done) {
                                 sent_.push_back(plan);
                                 done_ = done;
                               }});
  }
  static LeavingJobsOptions Fast() {
    return {milliseconds(1), milliseconds(0), milliseconds(1'000'000), milliseconds(1)};
  }

  std::vector<LeavingJob> waiting_{{kTask, 10}};
  bool busy_ = false;
  int looks_ = 0;
  std::vector<slurm::JobReturn> sent_;
  std::function<void()> done_;
};

TEST_F(LeavingJobsTest, SendsAWaitingJobToANodeWithRoom) {
  const auto watched = Watch(Fast());
  EXPECT_FALSE(watched->Leaves(kTask));
  ASSERT_TRUE(RunUntil([&] { return !sent_.empty(); }));
  EXPECT_EQ(sent_[0].job, 10U);
  EXPECT_EQ(sent_[0].exclude, "n0");
  EXPECT_TRUE(watched->Leaves(kTask)) << "until its plan is stored";
  done_();
  EXPECT_FALSE(watched->Leaves(kTask));
  const int before = looks_;
  ASSERT_TRUE(RunUntil([&] { return looks_ > before + 3; }));
  EXPECT_EQ(sent_.size(), 1U) << "it is moved only once";
}

TEST_F(LeavingJobsTest, ChecksOnlyJobsThatHaveWaitedLong) {
  LeavingJobsOptions options = Fast();
  options.after = milliseconds(1'000'000);
  const auto watched = Watch(options);
  ASSERT_TRUE(RunUntil([&] { return looks_ > 3; }));
  EXPECT_EQ(Read("looks"), "");
}

TEST_F(LeavingJobsTest, KeepsAJobThatStartsSoonOrHasNoOtherNode) {
  waiting_[0].soon = true;
  {
    const auto watched = Watch(Fast());
    ASSERT_TRUE(RunUntil([&] { return looks_ > 3; }));
    waiting_[0].soon = false;
    busy_ = true;
    ASSERT_TRUE(RunUntil([&] { return looks_ > 6; }));
    EXPECT_EQ(Read("looks"), "");
  }
  busy_ = false;
  WriteNodes("IDLE+DRAIN");
  const auto watched = Watch(Fast());
  ASSERT_TRUE(RunUntil([&] { return Read("looks").size() > 4; }));
  WriteText("excluded", "n7\n");
  WriteNodes("IDLE");
  ASSERT_TRUE(RunUntil([&] { return looks_ > 15; }));
  EXPECT_TRUE(sent_.empty());
}

TEST_F(LeavingJobsTest, DoesNotTrustAnExpectedSoonStartForLong) {
  waiting_[0].soon = true;
  LeavingJobsOptions options = Fast();
  options.trust = milliseconds(5);
  const auto watched = Watch(options);
  EXPECT_TRUE(RunUntil([&] { return !sent_.empty(); }));
}

}  // namespace
}  // namespace carma::daemon

#include "daemon/slurm/slurm_programs.h"

#include "daemon/slurm/slurm_programs_fixture.h"

namespace carma::daemon {
namespace {

TEST(RunOfSlurm, ProgramsThatHangOrFailAreErrors) {
  constexpr auto kLong = std::chrono::seconds(20);
  EXPECT_FALSE(RunOfSlurm({"/bin/sleep", "1000"}, std::chrono::milliseconds(50)));
  const auto fails = RunOfSlurm({"/bin/sh", "-c", "echo why >&2; exit 3"}, kLong);
  ASSERT_FALSE(fails);
  EXPECT_EQ(fails.error().message, "/bin/sh: why");
  EXPECT_FALSE(RunOfSlurm({"/no/such/program"}, kLong));
  EXPECT_EQ(RunOfSlurm({"/bin/echo", "so"}, kLong).value_or(""), "so\n");
}

class SlurmProgramsTest : public SlurmProgramsFixture {};

TEST_F(SlurmProgramsTest, FindsAJobAsSqueueShowsIt) {
  const auto found = Programs().Find(10);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->state, "RUNNING");
  EXPECT_EQ((*found)->carma_gib, 10);
}

TEST_F(SlurmProgramsTest, AnUnknownJobIsNoError) {
  std::filesystem::remove(folder_ + "/job");
  const auto found = Programs().Find(10);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(*found);
}

TEST_F(SlurmProgramsTest, ReportsRefusalsInTheWordsOfScontrol) {
  ASSERT_TRUE(Programs().Control({"requeuehold", "10"}));
  const auto again = Programs().Control({"requeuehold", "10"});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, folder_ + "/scontrol: Job is pending execution for job 10");
  EXPECT_EQ(Read("asked"), "requeuehold 10\nrequeuehold 10\n");
}

}  // namespace
}  // namespace carma::daemon

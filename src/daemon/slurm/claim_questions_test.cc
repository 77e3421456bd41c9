#include "daemon/slurm/claim_questions.h"

#include "daemon/slurm/slurm_programs_fixture.h"

namespace carma::daemon {
namespace {

class ClaimQuestionsTest : public SlurmProgramsFixture {};

TEST_F(ClaimQuestionsTest, ReportsTheClaimOfAJob) {
  ClaimQuestions questions(loop_, Programs());
  std::optional<std::int64_t> claim;
  bool told = false;
  const auto take = [&](const Result<std::optional<std::int64_t>>& gib) {
    claim = gib.value_or(-1);
    told = true;
  };
  questions.Ask(10, take);
  ASSERT_TRUE(RunUntil([&] { return told; }));
  EXPECT_EQ(claim, 10);
  told = false;
  std::filesystem::remove(folder_ + "/job");
  questions.Ask(10, take);
  ASSERT_TRUE(RunUntil([&] { return told; }));
  EXPECT_FALSE(claim);
}

// The error must be reported. Otherwise a restarted job would start with its old claim.
TEST_F(ClaimQuestionsTest, ReportsASlurmThatDoesNotAnswer) {
  WriteProgram("squeue", "#!/bin/sh\nexit 1\n");
  ClaimQuestions questions(loop_, Programs());
  std::optional<Result<std::optional<std::int64_t>>> heard;
  questions.Ask(10, [&](const auto& gib) { heard = gib; });
  ASSERT_TRUE(RunUntil([&] { return heard.has_value(); }));
  ASSERT_FALSE(*heard);
  EXPECT_EQ(heard->error().code, ErrorCode::kUnavailable);
}

TEST_F(ClaimQuestionsTest, RequestsDuringACallShareTheNextOne) {
  WriteProgram(
      "squeue",
      "#!/bin/sh\necho $5 >> DIR/looks\n"
      "for job in 10 11 12; do "
      "echo \"$job|$job|RUNNING|None|1|1|0|gres:carma:$job|1|n0||main|(null)|cpu=1|9|(null)|\"; "
      "done\n");
  ClaimQuestions questions(loop_, Programs());
  std::vector<std::int64_t> claims;
  for (const std::uint64_t job : {10, 11, 12, 13})
    questions.Ask(job, [&](const auto& gib) { claims.push_back(gib->value_or(0)); });
  ASSERT_TRUE(RunUntil([&] { return claims.size() == 4; }));
  EXPECT_EQ(claims, (std::vector<std::int64_t>{10, 11, 12, 0}));
  EXPECT_EQ(Read("looks"), "--jobs=10\n--jobs=11,12,13\n");
}

}  // namespace
}  // namespace carma::daemon

#include "task/shim/slurm_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::task {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const std::map<std::string, std::string> kTaskFields{
    {"SLURM_JOB_ID", "12"},         {"SLURM_JOB_NODELIST", "here"},
    {"SLURM_ARRAY_JOB_ID", "10"},   {"SLURM_ARRAY_TASK_ID", "4"},
    {"SLURM_ARRAY_TASK_MIN", "0"},  {"SLURM_ARRAY_TASK_MAX", "6"},
    {"SLURM_ARRAY_TASK_STEP", "2"}, {"SLURM_ARRAY_TASK_COUNT", "4"},
    {"CARMA_TASK_NAME", "train"},   {"CARMA_ATTEMPT_DIR", "/state/12/1"}};

TEST(ExpandHosts, ReadsSlurmsLists) {
  EXPECT_THAT(*ExpandHosts("n1"), ElementsAre("n1"));
  EXPECT_THAT(*ExpandHosts("n[08-10],login"), ElementsAre("n08", "n09", "n10", "login"));
  EXPECT_THAT(*ExpandHosts("a,b[1,3]x"), ElementsAre("a", "b1x", "b3x"));
  EXPECT_THAT(*ExpandHosts(""), ElementsAre());
  for (const char* wrong : {"n[1-", "n[2-1]", "n[x]", "n[0-99999999]"})
    EXPECT_FALSE(ExpandHosts(wrong)) << wrong;
}

TEST(Scontrol, BecomesCallsOfCarma) {
  const std::vector<std::pair<Words, Words>> cases{
      {{"requeue", "12"}, {"requeue", "12"}},
      {{"requeue", "10_4"}, {"requeue", "12"}},
      {{"release", "10_6,7"}, {"release", "13", "7_*"}},
      {{"update", "JobId=12", "TimeLimit=2:00:00"}, {"edit", "12", "--time", "2:00:00"}},
      {{"-o", "show", "job"}, {"show", "--json", "12"}},
      {{"show", "job=7"}, {"show", "--json", "7"}}};
  for (const auto& [words, expected] : cases) {
    const auto call = PlanScontrol(words, kTaskFields);
    ASSERT_TRUE(call) << words[0] << ": " << call.error().message;
    EXPECT_EQ(call->words, expected);
  }
  EXPECT_EQ(PlanScontrol({"show", "hostnames"}, kTaskFields)->text, "here\n");
  EXPECT_EQ(PlanScontrol({"show", "hostnames", "n[1-2]"}, kTaskFields)->text, "n1\nn2\n");
  for (const Words& wrong : std::vector<Words>{{},
                                               {"reconfigure"},
                                               {"show", "node"},
                                               {"requeue"},
                                               {"requeue", "10_3"},
                                               {"requeue", "11_4"},
                                               {"update", "JobId=12", "Partition=x"}})
    EXPECT_FALSE(PlanScontrol(wrong, kTaskFields));
}

TEST(Scontrol, ShowsAJobInSlurmsWords) {
  const std::string json =
      R"({"id":12,"name":"train","user":"ada","uid":1000,"state":"out_of_memory","reason":"","attempt":3,)"
      R"("launched_ms":1000,"ended_ms":91000,"submitted_ms":500,"time_limit_s":90000,"gpus":2,)"
      R"("command":["python3","t.py"],"workdir":"/w","stdout_path":"/w/o","stderr_path":"/w/e"})";
  const std::string text = JobText(json, false).value_or("");
  for (const char* part :
       {"JobId=12 JobName=train\n   UserId=ada(1000)", "JobState=OUT_OF_MEMORY Reason=None",
        "Restarts=2 ", "RunTime=00:01:30 TimeLimit=1-01:00:00", "StdErr=/w/e", "StdOut=/w/o",
        "Command=python3 t.py", "TresPerNode=gres:gpu:2"})
    EXPECT_THAT(text, HasSubstr(part));
  const std::string line = JobText(json, true).value_or("");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const char* const requeued =
      R"({"id":12,"state":"queued","launched_ms":1000,"attempt_ended_ms":91000,"ended_ms":null})";
  EXPECT_THAT(JobText(requeued, false).value_or(""), HasSubstr("RunTime=00:01:30"));
  EXPECT_FALSE(JobText("{}", false));
}

TEST(Scancel, BecomesACallOfCarma) {
  EXPECT_THAT(PlanScancel({"10_4", "7"}, kTaskFields)->words, ElementsAre("cancel", "12", "7_*"));
  EXPECT_THAT(PlanScancel({"--me", "-t", "PENDING"}, kTaskFields)->words,
              ElementsAre("cancel", "--all", "--state", "queued"));
  EXPECT_FALSE(PlanScancel({}, kTaskFields));
  EXPECT_FALSE(PlanScancel({"--signal=USR1", "12"}, kTaskFields));
}

TEST(Sbatch, PassesOnItsOptionsAndTheScript) {
  EXPECT_THAT(
      PlanSbatch({"-p", "gpu", "-n4", "--parsable", "job.sh", "-x", "one"}, kTaskFields)->words,
      ElementsAre("submit", "--parsable", "--sbatch=--partition=gpu", "--sbatch=--ntasks=4",
                  "job.sh", "-x", "one"));
  EXPECT_TRUE(PlanSbatch({"--parsable", "job.sh"}, kTaskFields)->parsable);
  EXPECT_THAT(PlanSbatch({"--wrap", "echo a b"}, kTaskFields)->words,
              ElementsAre("submit", "--parsable", "--wrap=echo a b", "--sbatch=--quiet"));
  // A script that submits itself again keeps its name.
  EXPECT_THAT(PlanSbatch({"-d", "afterany:12", "/state/12/1/script"}, kTaskFields)->words,
              ElementsAre("submit", "--parsable", "--sbatch=--job-name=train",
                          "--sbatch=--dependency=afterany:12", "/state/12/1/script"));
  EXPECT_FALSE(PlanSbatch({"--made-up", "job.sh"}, kTaskFields));
  EXPECT_FALSE(PlanSbatch({"-n"}, kTaskFields));
}

}  // namespace
}  // namespace carma::task

#include "task/shim/srun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace carma::task {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(Srun, AcceptsTheLinesThatScriptsHave) {
  const struct {
    Words words;
    int ntasks;
    Words command;
  } kCases[] = {
      {{"python", "train.py", "-n", "4"}, 2, {"python", "train.py", "-n", "4"}},
      {{"-n", "4", "./a.out"}, 4, {"./a.out"}},
      {{"-n1", "-N1-1", "-c", "8", "--gres=gpu:1", "--mpi", "pmix", "x"}, 1, {"x"}},
      {{"--ntasks=3", "--exclusive", "--kill-on-bad-exit=1", "-u", "--", "-odd"}, 3, {"-odd"}},
      {{"--cpu-bind=none", "-l", "bash", "-c", "echo"}, 2, {"bash", "-c", "echo"}},
  };
  for (const auto& each : kCases) {
    const auto plan = PlanSrun(each.words, {{"SLURM_NTASKS", "2"}});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->ntasks, each.ntasks);
    EXPECT_EQ(plan->command, each.command);
  }
  EXPECT_EQ(PlanSrun({"x"}, {})->ntasks, 1);
}

TEST(Srun, CountsProcessesPerNodeIfNoTotalIsGiven) {
  EXPECT_EQ(PlanSrun({"x"}, {{"SLURM_NTASKS_PER_NODE", "4"}})->ntasks, 4);
  EXPECT_EQ(PlanSrun({"x"}, {{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_NTASKS", "2"}})->ntasks, 2);
  EXPECT_EQ(PlanSrun({"--ntasks-per-node=3", "x"}, {{"SLURM_NTASKS", "4"}})->ntasks, 3);
  EXPECT_EQ(PlanSrun({"-n", "2", "--ntasks-per-node=3", "x"}, {})->ntasks, 2);
  EXPECT_EQ(PlanSrun({"--ntasks-per-gpu=2", "x"}, {{"CUDA_VISIBLE_DEVICES", "a,b"}})->ntasks, 4);
}

TEST(Srun, RefusesMeaninglessOptions) {
  const std::vector<std::pair<Words, const char*>> cases{
      {{}, "expected a program"},
      {{"-n"}, "-n: expected a value"},
      {{"-n", "0", "x"}, "from 1 to 1024"},
      {{"-N", "2", "x"}, "this is a single server"},
      {{"--multi-prog", "x"}, "unknown option --multi-prog"}};
  for (const auto& [words, expected] : cases) {
    const auto plan = PlanSrun(words, {});
    ASSERT_FALSE(plan) << expected;
    EXPECT_THAT(plan.error().message, HasSubstr(expected));
  }
}

TEST(Srun, GivesEachCopyItsGpus) {
  const std::map<std::string, std::string> environment{
      {"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c"}, {"SLURM_GPUS_PER_TASK", "1"}};
  const auto plan = PlanSrun({"-n", "3", "x"}, environment);
  ASSERT_TRUE(plan);
  EXPECT_EQ(SrunVariables(*plan, 1, environment).at("CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(SrunVariables(*plan, 2, environment).at("SLURM_PROCID"), "2");
  EXPECT_EQ(SrunVariables(*plan, 2, environment).at("SLURM_NTASKS"), "3");
  const struct {
    const char* bind;
    int rank;
    const char* expected;
  } kBindings[] = {{"--gpu-bind=single:2", 1, "GPU-a"},
                   {"--gpu-bind=single:2", 2, "GPU-b"},
                   {"--gpu-bind=per_task:2", 1, "GPU-c,GPU-a"},
                   {"--gpu-bind=map_gpu:2,0", 0, "GPU-c"},
                   {"--gpu-bind=closest", 1, "GPU-b"}};
  for (const auto& [bind, rank, expected] : kBindings) {
    const auto bound = PlanSrun({bind, "x"}, environment);
    ASSERT_TRUE(bound) << bind;
    EXPECT_EQ(SrunVariables(*bound, rank, environment).at("CUDA_VISIBLE_DEVICES"), expected)
        << bind;
  }
  const auto all = PlanSrun({"--gpu-bind=none", "x"}, environment);
  EXPECT_FALSE(SrunVariables(*all, 1, environment).contains("CUDA_VISIBLE_DEVICES"));
  const auto whole = PlanSrun({"x"}, {});
  EXPECT_FALSE(SrunVariables(*whole, 0, environment).contains("CUDA_VISIBLE_DEVICES"));
}

TEST(Srun, StepsDoNotShareRequestedGpus) {
  const std::map<std::string, std::string> environment{
      {"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c"}, {"SLURM_JOB_ID", std::to_string(::getpid())}};
  const auto plan_of = [&](const Words& words) { return *PlanSrun(words, environment); };
  SrunPlan first = plan_of({"--gpus=1", "x"}), second = plan_of({"-n2", "--gpus-per-task=1", "x"});
  auto held = TakeGpus(first, environment);
  EXPECT_THAT(first.gpus, ElementsAre("GPU-a"));
  const auto both = TakeGpus(second, environment);
  EXPECT_THAT(second.gpus, ElementsAre("GPU-b", "GPU-c"));
  EXPECT_EQ(SrunVariables(second, 1, environment).at("CUDA_VISIBLE_DEVICES"), "GPU-c");
  EXPECT_EQ(SrunVariables(second, 1, environment).at("SLURM_STEP_GPUS"), "GPU-c");
  held.clear();
  SrunPlan third = plan_of({"--gres=gpu:a100:1", "x"}), whole = plan_of({"x"}),
           none = plan_of({"--gres=none", "x"});
  const auto again = TakeGpus(third, environment);
  EXPECT_THAT(third.gpus, ElementsAre("GPU-a"));
  EXPECT_TRUE(TakeGpus(whole, environment).empty());
  EXPECT_EQ(whole.gpus.size(), 3U);
  EXPECT_TRUE(TakeGpus(none, environment).empty());
  EXPECT_EQ(SrunVariables(none, 0, environment).at("CUDA_VISIBLE_DEVICES"), "");
}

TEST(Srun, RunsAllCopiesAndReturnsTheWorstCode) {
  std::string folder = ::testing::TempDir() + "srun-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::map<std::string, std::string> environment{{"SLURM_JOB_ID", "7"}};
  auto plan = PlanSrun({"-n", "3", "-o", folder + "/%j.%t", "sh", "-c",
                        "echo copy $SLURM_PROCID of $SLURM_NTASKS; exit $SLURM_PROCID"},
                       environment);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(RunSrun(*plan, environment), 2);
  EXPECT_EQ(base::ReadFile(folder + "/7.1", 100).value_or(""), "copy 1 of 3\n");
  // A signal reaches the copies whether it arrives before or after they start.
  plan->output.clear();
  plan->command = {"sh", "-c", "kill -USR1 $PPID; while :; do sleep 0.1; done"};
  plan->ntasks = 2;
  EXPECT_EQ(RunSrun(*plan, environment), 128 + SIGUSR1);
  plan->command = {"/no/such/program"};
  EXPECT_EQ(RunSrun(*plan, environment), 127);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace carma::task

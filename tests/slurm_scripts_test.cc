// Tests batch scripts written for Slurm: the environment of each process, and the Slurm commands
// that the scripts call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/host.h"
#include "base/text.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SlurmScripts : public ::testing::Test {
 protected:
  explicit SlurmScripts(double time_scale = 1000)
      : site({.shape = "4xA100-40GB", .time_scale = time_scale}) {
    site.Set("host.cpus", "64");  // regardless of what this machine has
    site.Start();
  }
  ~SlurmScripts() override { site.CancelAll(); }

  std::string WriteScript(const std::string& name, const std::string& text) const {
    WriteText(site.out_dir() + "/" + name, "#!/bin/bash\n" + text, 0755);
    return name;
  }
  // The lines of the task's output, sorted because its processes write in no fixed order.
  std::vector<std::string> LinesOf(std::uint64_t id) {
    const std::string text = site.Output(id);
    std::vector<std::string> lines;
    for (const std::string_view line : base::Split(text, '\n')) {
      if (!line.empty()) lines.emplace_back(line);
    }
    std::ranges::sort(lines);
    return lines;
  }

  Site site;
};

// The clock is slower here, so that a script starts in less than a minute of server time.
class SpinningScripts : public SlurmScripts {
 protected:
  SpinningScripts() : SlurmScripts(5) {}

  std::string Explained(std::uint64_t id) const {
    return site.Carma({"explain", std::to_string(id)}).out;
  }
};

TEST_F(SlurmScripts, ProcessesPerNodeAreStartedWithTheirRanks) {
  const std::string script = WriteScript("ddp.sh",
                                         "#SBATCH --nodes=1 --ntasks-per-node=4 --gres=gpu:4\n"
                                         "srun sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS, "
                                         "$(echo $CUDA_VISIBLE_DEVICES | tr , \\\\n | wc -l)'\n");
  const std::uint64_t id = site.Submit({script});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_THAT(LinesOf(id), ::testing::ElementsAre("rank 0 of 4, 4", "rank 1 of 4, 4",
                                                  "rank 2 of 4, 4", "rank 3 of 4, 4"));
}

TEST_F(SlurmScripts, ProcessesOfAStepShareOneOutputFile) {
  WriteText(site.out_dir() + "/step.log", "of an earlier run\n", 0644);
  const std::string script =
      WriteScript("shared.sh",
                  "#SBATCH --ntasks=4\nsrun -o step.log sh -c 'echo $SLURM_PROCID'\n"
                  "sort step.log\n");
  const std::uint64_t id = site.Submit({"-D", site.out_dir(), script});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_THAT(LinesOf(id), ::testing::ElementsAre("0", "1", "2", "3"));
}

TEST_F(SlurmScripts, TheNumberOfAnArrayMeansAllOfIt) {
  const std::string script =
      WriteScript("ends.sh",
                  "#SBATCH -G 0\njob=$(sbatch --parsable --array=0-2 --hold --wrap 'sleep 600')\n"
                  "scontrol release $job\nscancel $job\necho $job\n");
  const std::uint64_t id = site.Submit({"-D", site.out_dir(), script});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  for (std::uint64_t member = id + 1; member <= id + 3; ++member)
    EXPECT_EQ(site.Await(member).state, "cancelled");
}

TEST_F(SlurmScripts, EachProcessSeesItsOwnGpu) {
  const std::string script = WriteScript(
      "own.sh", "#SBATCH --ntasks=2 --gpus-per-task=1\nsrun printenv CUDA_VISIBLE_DEVICES\n");
  const std::uint64_t id = site.Submit({script});
  std::vector<std::string> gpus = site.Await(id).gpu_uuids;
  std::ranges::sort(gpus);
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(LinesOf(id), gpus);
}

TEST_F(SlurmScripts, ConcurrentStepsHaveSeparateGpus) {
  const std::string script = WriteScript(
      "steps.sh",
      "#SBATCH --gpus=3\nfor i in 1 2 3; do srun -n1 --exact --gpus=1 sh -c "
      "'printenv SLURM_STEP_GPUS; until [ $(cat $0 | wc -l) = 3 ]; do sleep 0.05; done' "
      "$PWD/steps.out & done\nwait\n");
  const std::uint64_t id = site.Submit({"-o", "steps.out", script});
  std::vector<std::string> gpus = site.Await(id).gpu_uuids;
  std::ranges::sort(gpus);
  EXPECT_EQ(LinesOf(id), gpus);
}

TEST_F(SlurmScripts, ALoginShellFindsSrunToo) {
  WriteText(site.out_dir() + "/.bash_profile", "PATH=/usr/bin:/bin\n", 0644);
  WriteText(site.out_dir() + "/login.sh",
            "#!/bin/bash -l\n#SBATCH -G 1 -n 2\nsrun sh -c 'echo $SLURM_PROCID of 2'\n"
            "echo ${0##*/} $1 $2\n",
            0755);
  const std::uint64_t id =
      site.Submit({"--export=ALL,HOME=" + site.out_dir(), "login.sh", "a", "b c"});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_THAT(LinesOf(id), ::testing::ElementsAre("0 of 2", "1 of 2", "script a b c"));
}

TEST_F(SlurmScripts, ScontrolShowsHostsAndTheJob) {
  const std::string script = WriteScript("show.sh",
                                         "#SBATCH --gres=gpu:1 --time=2:00:00 -o %j.out\n"
                                         "scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1\n"
                                         "scontrol show job $SLURM_JOB_ID | grep -o -E "
                                         "'(JobState|TimeLimit|StdOut|Restarts)=[^ ]*'\n");
  const std::uint64_t id = site.Submit({script});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_EQ(site.Output(id), base::ShortHostName() + "\nJobState=RUNNING\nRestarts=0\n" +
                                 "TimeLimit=02:00:00\nStdOut=" + site.out_dir() + "/" +
                                 std::to_string(id) + ".out\n");
}

TEST_F(SlurmScripts, AScriptSubmitsItselfAgain) {
  const std::string script = WriteScript(
      "again.sh",
      "#SBATCH --job-name=chain --gres=gpu:1 -o again-%j.out\n"
      "echo round $1\n"
      "if [ $1 -lt 3 ]; then sbatch --dependency=afterok:$SLURM_JOB_ID $0 $(($1 + 1)); fi\n");
  const std::uint64_t first = site.Submit({script, "1"});
  EXPECT_EQ(site.Await(first).state, "succeeded") << site.Output(first);
  EXPECT_EQ(site.Output(first), "round 1\nSubmitted batch job " + std::to_string(first + 1) + "\n");
  for (const std::uint64_t id : {first + 1, first + 2}) {
    const api::TaskView task = site.Await(id);
    EXPECT_EQ(task.state, "succeeded") << site.Output(id);
    EXPECT_EQ(task.name, "chain");
  }
  EXPECT_EQ(site.Output(first + 2), "round 3\n");
}

TEST_F(SpinningScripts, AScriptThatSubmitsItselfAtOnceIsSlowed) {
  const std::string script =
      WriteScript("spin.sh", "#SBATCH --job-name=spin --gres=gpu:1 -o /dev/null\nsbatch $0\n");
  const std::uint64_t first = site.Submit({script});
  // Each task submits its successor before it exits.
  for (std::uint64_t id = first; id < first + 4; ++id) EXPECT_EQ(site.Await(id).state, "succeeded");
  site.ExpectWaits(first + 4, "Backoff");
  EXPECT_THAT(Explained(first + 4),
              HasSubstr("Task " + std::to_string(first + 3) +
                        " submitted it within a minute of starting; it is number 4 in a chain"));
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("(Backoff)"));
  EXPECT_THAT(site.History(first + 1).front().text, HasSubstr("in task " + std::to_string(first)));
}

TEST_F(SpinningScripts, AScriptThatRequeuesItselfAtOnceIsSlowed) {
  const std::string script = WriteScript("again.sh",
                                         "#SBATCH --gres=gpu:1 -o /dev/null\n"
                                         "scontrol requeue $SLURM_JOB_ID\nsleep 600\n");
  const std::uint64_t id = site.Submit({script});
  site.ExpectWaits(id, "Backoff");
  EXPECT_GE(site.Task(id).attempt, 2) << "there is no pause the first time";
  EXPECT_THAT(Explained(id), HasSubstr("Requeued within a minute of starting, "));
  // The task's owner may cut the back-off short.
  const int attempt = site.Task(id).attempt;
  EXPECT_EQ(site.Carma({"requeue", std::to_string(id)}).code, 0);
  EXPECT_TRUE(Eventually([&] { return site.Task(id).attempt > attempt; }));
}

TEST_F(SlurmScripts, ReportsDifferencesFromSlurmAtSubmission) {
  const std::string script = WriteScript("differs.sh",
                                         "#SBATCH --ntasks=1\n"
                                         "export CUDA_VISIBLE_DEVICES=0\n"
                                         "squeue -j $SLURM_JOB_ID\n");
  const Ran ran = site.Carma({"submit", "--check", script});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("differs.sh:3: sets CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(ran.err, HasSubstr("differs.sh:4: CARMA has no squeue"));
  EXPECT_THAT(
      ran.err,
      HasSubstr("no #SBATCH line requests a GPU, so the task gets one (use -G 0 for none)"));
  const Ran shard =
      site.Carma({"submit", "--check", WriteScript("s.sh", "#SBATCH --gres=shard:2\n")});
  EXPECT_EQ(shard.code, 0);
  EXPECT_THAT(shard.err, HasSubstr("'shard:2' means one shared GPU"));
  EXPECT_THAT(shard.err, Not(HasSubstr("requests a GPU")));
}

}  // namespace
}  // namespace carma::system_test

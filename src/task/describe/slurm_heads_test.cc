#include <gtest/gtest.h>

#include <fmt/format.h>

#include "task/describe/script.h"

namespace carma::task {
namespace {

// Typical headers of batch scripts, each with the expected description of the first task or the
// reason the script is rejected. Nothing may be ignored silently.
struct Head {
  const char* name;
  const char* lines;   // follow "#!/bin/bash"
  const char* expect;  // "gpus=1 …" or "refused: …"
};

constexpr Head kHeads[] = {
    {"the smallest", "#SBATCH --gres=gpu:1\n", "gpus=1"},
    {"a GPU type", "#SBATCH --gres=gpu:a100:2\n", "gpus=2 type=a100"},
    {"a type in --gpus", "#SBATCH --gpus=v100:1\n", "gpus=1 type=v100 SLURM_GPUS=v100:1"},
    {"no GPU count", "#SBATCH --gres=gpu\n", "gpus=1"},
    {"a GPU and shards", "#SBATCH --gres=gpu:1,shard:4\n", "gpus=1 warned"},
    {"short options", "#SBATCH -J train -t 1-0 -G 2 -o %x.%j.out -e %x.%j.err\n",
     "gpus=2 name=train time=86400 out=/w/%x.%j.out err=/w/%x.%j.err SLURM_GPUS=2"},
    {"an array", "#SBATCH --array=1-10\n#SBATCH --output=logs/%A_%a.out\n",
     "gpus=1 array=1/10 out=/w/logs/%A_%a.out SLURM_ARRAY_TASK_COUNT=10 SLURM_ARRAY_TASK_MAX=10 "
     "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=1 reports-gpu"},
    {"an array, throttled", "#SBATCH -a 0-15%4\n#SBATCH -o slurm-%A_%a.out\n",
     "gpus=1 array=0/16 at-once=4 out=/w/slurm-%A_%a.out SLURM_ARRAY_TASK_COUNT=16 "
     "SLURM_ARRAY_TASK_MAX=15 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=1 reports-gpu"},
    {"an array with steps", "#SBATCH --array=0-6:2\n#SBATCH -o %a.txt\n",
     "gpus=1 array=0/4 out=/w/%a.txt SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MAX=6 "
     "SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=2 reports-gpu"},
    {"an array into one file", "#SBATCH --array=1-2\n#SBATCH -o all.out\n",
     "gpus=1 array=1/2 out=/w/all.out SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MAX=2 "
     "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=1 reports-gpu warned"},
    {"an empty array", "#SBATCH --array=5-1\n", "refused: --array"},
    {"a partition and an account", "#SBATCH -p gpu -A lab42\n",
     "gpus=1 SLURM_JOB_ACCOUNT=lab42 SLURM_JOB_PARTITION=gpu reports-gpu warned"},
    {"CPUs", "#SBATCH -c 8\n", "gpus=1 cpus=8 SLURM_CPUS_PER_TASK=8 reports-gpu"},
    {"CPUs with the long option", "#SBATCH --cpus-per-task=16\n",
     "gpus=1 cpus=16 SLURM_CPUS_PER_TASK=16 reports-gpu"},
    {"memory", "#SBATCH --mem=32G\n", "gpus=1 mem=32768 SLURM_MEM_PER_NODE=32768 reports-gpu"},
    {"memory per CPU", "#SBATCH --mem-per-cpu=4G\n",
     "gpus=1 mem=4096 SLURM_MEM_PER_CPU=4096 reports-gpu"},
    {"memory per CPU, several CPUs", "#SBATCH --mem-per-cpu=4G -c 4\n",
     "gpus=1 cpus=4 mem=16384 SLURM_CPUS_PER_TASK=4 SLURM_MEM_PER_CPU=4096 reports-gpu"},
    {"memory per GPU", "#SBATCH --mem-per-gpu=64000 --gpus=2\n",
     "gpus=2 mem=128000 SLURM_GPUS=2 SLURM_MEM_PER_GPU=64000"},
    {"all memory", "#SBATCH --mem=0\n", "gpus=1 SLURM_MEM_PER_NODE=0 reports-gpu"},
    {"an invalid amount of memory", "#SBATCH --mem=plenty\n", "gpus=1 reports-gpu warned"},
    {"CPUs per GPU", "#SBATCH --cpus-per-gpu=6 -G 2\n",
     "gpus=2 cpus=12 SLURM_CPUS_PER_GPU=6 SLURM_GPUS=2"},
    {"no GPU", "#SBATCH --gpus=0\n#SBATCH -c 4 --mem=8G\n",
     "gpus=0 cpus=4 mem=8192 SLURM_CPUS_PER_TASK=4 SLURM_GPUS=0 SLURM_MEM_PER_NODE=8192"},
    {"several tasks with CPUs", "#SBATCH -n 4 -c 2\n",
     "gpus=1 cpus=8 SLURM_CPUS_PER_TASK=2 SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4 "
     "reports-gpu"},
    {"one task", "#SBATCH --ntasks=1\n",
     "gpus=1 SLURM_NPROCS=1 SLURM_NTASKS=1 SLURM_TASKS_PER_NODE=1 reports-gpu"},
    {"four tasks with one GPU each", "#SBATCH -n 4 --gpus-per-task=1\n",
     "gpus=4 cpus=4 SLURM_GPUS_PER_TASK=1 SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4"},
    {"tasks per node", "#SBATCH --ntasks-per-node=4\n",
     "gpus=1 cpus=4 SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_NTASKS_PER_NODE=4 SLURM_TASKS_PER_NODE=4 "
     "reports-gpu"},
    {"one node", "#SBATCH --nodes=1\n", "gpus=1 reports-gpu"},
    {"one node with the short option", "#SBATCH -N1\n", "gpus=1 reports-gpu"},
    {"at least one node", "#SBATCH -N 1-4\n", "gpus=1 reports-gpu"},
    {"two nodes", "#SBATCH --nodes=2\n", "refused: --nodes"},
    {"two nodes with the short option", "#SBATCH -N 2\n", "refused: --nodes"},
    {"a heterogeneous job", "#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -G 4\n", "refused: hetjob"},
    {"mail", "#SBATCH --mail-type=END,FAIL\n#SBATCH --mail-user=a@b.org\n",
     "gpus=1 notify=mail:a@b.org: end, fail reports-gpu"},
    {"mail to oneself for each task",
     "#SBATCH --mail-type=BEGIN,ARRAY_TASKS\n#SBATCH -a 1-2\n#SBATCH -o %a.out\n",
     "gpus=1 array=1/2 out=/w/%a.out notify=me: start of each task SLURM_ARRAY_TASK_COUNT=2 "
     "SLURM_ARRAY_TASK_MAX=2 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=1 reports-gpu"},
    {"an unsupported mail event", "#SBATCH --mail-type=END,TIME_LIMIT_90\n",
     "gpus=1 notify=me: end reports-gpu warned"},
    {"no mail", "#SBATCH --mail-type=NONE\n#SBATCH --mail-user=a@b.org\n", "gpus=1 reports-gpu"},
    {"an unknown mail event", "#SBATCH --mail-type=SOMETIMES\n", "refused: --mail-type"},
    {"a signal before the time limit", "#SBATCH --signal=B:USR1@120\n#SBATCH -t 60\n",
     "gpus=1 time=3600 signal=B:USR1@120 reports-gpu"},
    {"a signal to the programs", "#SBATCH --signal=SIGINT\n#SBATCH -t 60\n",
     "gpus=1 time=3600 signal=INT@60 reports-gpu"},
    {"a signal without a time limit", "#SBATCH --signal=10@120\n",
     "gpus=1 signal=USR1@120 reports-gpu warned"},
    {"an unknown signal", "#SBATCH --signal=HELLO@120\n", "refused: --signal"},
    {"appended output", "#SBATCH --open-mode=append\n", "gpus=1 appends reports-gpu"},
    {"truncated output", "#SBATCH --open-mode=truncate\n", "gpus=1 reports-gpu"},
    {"a constraint", "#SBATCH --constraint=\"a100&nvlink\"\n", "gpus=1 type=a100 warned"},
    {"a site-specific constraint", "#SBATCH -C skylake\n", "gpus=1 reports-gpu warned"},
    {"named nodes", "#SBATCH -w node07\n#SBATCH --exclude=node03\n", "gpus=1 reports-gpu warned"},
    {"requeued", "#SBATCH --requeue\n", "gpus=1 reports-gpu"},
    {"not requeued", "#SBATCH --no-requeue\n", "gpus=1 reports-gpu"},
    {"the whole node", "#SBATCH --exclusive\n", "gpus=1 exclusive reports-gpu warned"},
    {"after another task", "#SBATCH --dependency=afterok:12\n", "gpus=1 after=1 reports-gpu"},
    {"a singleton dependency", "#SBATCH --dependency=singleton\n", "refused: --dependency"},
    {"a folder", "#SBATCH --chdir=/data/run\n", "gpus=1 in=/data/run reports-gpu"},
    {"minutes", "#SBATCH --time=90\n", "gpus=1 time=5400 reports-gpu"},
    {"hours", "#SBATCH --time=08:00:00\n", "gpus=1 time=28800 reports-gpu"},
    {"days and hours", "#SBATCH -t 2-12\n", "gpus=1 time=216000 reports-gpu"},
    {"no limit", "#SBATCH --time=UNLIMITED\n", "gpus=1 reports-gpu"},
    {"an invalid time", "#SBATCH --time=soon\n", "refused: --time"},
    {"a quality of service", "#SBATCH --qos=high\n",
     "gpus=1 SLURM_JOB_QOS=high reports-gpu warned"},
    {"commented out", "##SBATCH --gres=gpu:4\n# SBATCH --time=1\n#SBATCH -J x\n",
     "gpus=1 name=x reports-gpu"},
    {"trailing comments", "#SBATCH --time=10   # ten minutes\n", "gpus=1 time=600 reports-gpu"},
    {"after the first command", "#SBATCH -J x\nmodule load cuda\n#SBATCH --gres=gpu:8\n",
     "gpus=1 name=x reports-gpu warned"},
    {"module and conda commands",
     "#SBATCH --job-name=bert\n#SBATCH --gres=gpu:1\n\nmodule load cuda/12.1\n"
     "source activate torch\nsrun python train.py --seed $SLURM_ARRAY_TASK_ID\n",
     "gpus=1 name=bert"},
    {"an unknown option", "#SBATCH --frobnicate=3\n", "gpus=1 reports-gpu warned"},
    {"four processes of one training run",
     "#SBATCH --gpus 4 --ntasks-per-node 4\nsrun python -um train\n",
     "gpus=4 cpus=4 SLURM_GPUS=4 SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_NTASKS_PER_NODE=4 "
     "SLURM_TASKS_PER_NODE=4"},
    {"a process for each GPU", "#SBATCH --gres=gpu:4 --ntasks-per-gpu=1\n",
     "gpus=4 cpus=4 SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_NTASKS_PER_GPU=1 SLURM_TASKS_PER_NODE=4"},
    {"GPU count from the process count", "#SBATCH -n 4 --ntasks-per-gpu=2\n",
     "gpus=2 cpus=4 SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_NTASKS_PER_GPU=2 SLURM_TASKS_PER_NODE=4"},
    {"a signal to the steps", "#SBATCH --gres=gpu:1 -t 60 --signal=USR1@90\n",
     "gpus=1 time=3600 signal=USR1@90"},
    {"shards", "#SBATCH --gres=shard:1\n", "gpus=1 warned"},
    {"a GPU, then shards: the last line counts",
     "#SBATCH --gres=gpu:1\n#SBATCH --gres=shard:11264\n", "gpus=1 warned"},
    {"other resources", "#SBATCH --gres=lscratch:100\n#SBATCH -G 1\n",
     "gpus=1 SLURM_GPUS=1 warned"},
    {"no resources", "#SBATCH --gres=none\n", "gpus=0"},
    {"it reads its remaining time", "#SBATCH -G 1\nleft=$(squeue -h -j $SLURM_JOB_ID -o %L)\n",
     "gpus=1 SLURM_GPUS=1 warned"},
    {"it chooses its GPUs", "#SBATCH -G 1\nexport CUDA_VISIBLE_DEVICES=0\n",
     "gpus=1 SLURM_GPUS=1 warned"},
    {"rendezvous through scontrol",
     "#SBATCH --gres=gpu:4\nexport MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | "
     "head "
     "-n 1)\nsrun torchrun --standalone train.py\n",
     "gpus=4"},
    {"it resubmits itself", "#SBATCH -G 1 --signal=B:SIGUSR1@90 -t 60\ntrap 'sbatch $0' USR1\n",
     "gpus=1 time=3600 signal=B:USR1@90 SLURM_GPUS=1"},
    {"it requeues itself", "#SBATCH -G 1 --requeue\nscontrol requeue $SLURM_JOB_ID\n",
     "gpus=1 SLURM_GPUS=1 warned"},
    {"a typical job",
     "#SBATCH --job-name=gpt\n#SBATCH --partition=a100\n#SBATCH --nodes=1\n#SBATCH "
     "--ntasks-per-node=1\n"
     "#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=32\n#SBATCH --mem=200G\n#SBATCH "
     "--time=24:00:00\n"
     "#SBATCH --output=%x-%j.out\n#SBATCH --mail-type=ALL\n",
     "gpus=4 name=gpt cpus=32 mem=204800 time=86400 out=/w/%x-%j.out notify=me: start, end, fail, "
     "requeue SLURM_CPUS_PER_TASK=32 SLURM_JOB_PARTITION=a100 SLURM_MEM_PER_NODE=204800 "
     "SLURM_NPROCS=1 SLURM_NTASKS=1 SLURM_NTASKS_PER_NODE=1 SLURM_TASKS_PER_NODE=1 warned"},
};

std::string Described(const std::vector<TaskSpec>& tasks, const Description& description) {
  const TaskSpec& task = tasks.front();
  std::string text = fmt::format("gpus={}", task.gpus);
  const auto add = [&text](const std::string& word) { text += " " + word; };
  if (task.gpu_type) add("type=" + *task.gpu_type);
  if (task.name != "job.sh") add("name=" + task.name);
  if (task.cpus) add(fmt::format("cpus={}", *task.cpus));
  if (task.host_memory_mib) add(fmt::format("mem={}", *task.host_memory_mib));
  if (task.time_limit) add(fmt::format("time={}", task.time_limit->count() / 1000));
  if (task.array_index) add(fmt::format("array={}/{}", *task.array_index, tasks.size()));
  if (task.array_limit > 0) add(fmt::format("at-once={}", task.array_limit));
  if (task.workdir != "/w") add("in=" + task.workdir);
  if (!task.stdout_path.ends_with("carma-%j-%B.out")) add("out=" + task.stdout_path);
  if (!task.stderr_path.empty()) add("err=" + task.stderr_path);
  if (task.exclusive) add("exclusive");
  for (const NotifyRule& rule : task.notify) add("notify=" + ShownRule(rule));
  if (task.append_output) add("appends");
  if (task.signal) {
    add(fmt::format("signal={}{}@{}", task.signal_main ? "B:" : "", *task.signal,
                    task.signal_before.value_or(base::Duration(0)).count() / 1000));
  }
  if (!task.dependencies.empty()) add(fmt::format("after={}", task.dependencies.size()));
  for (const auto& [name, value] : task.environment) {
    if (name != "SLURM_SUBMIT_DIR") add(name + "=" + value);
  }
  bool warned = false, no_gpu = false;
  for (const std::string& warning : description.warnings()) {
    if (warning.find("names the output") != std::string::npos) continue;
    const bool of_gpu = warning.find("requests a GPU") != std::string::npos;
    (of_gpu ? no_gpu : warned) = true;
  }
  if (no_gpu) add("reports-gpu");
  if (warned) add("warned");
  return text;
}

TEST(SlurmHeads, EveryHeadIsUnderstoodOrRefusedWithAMessage) {
  for (const Head& head : kHeads) {
    Description description;
    const std::string script = std::string("#!/bin/bash\n") + head.lines + "python train.py\n";
    const auto applied = ApplyScript(script, "job.sh", {}, description);
    // The task must not inherit variables of the job from which it is submitted.
    const SubmitterContext context{
        .cwd = "/w", .home = "/h", .user = "ada", .environment = {{"SLURM_ARRAY_TASK_ID", "99"}}};
    const auto tasks = applied ? description.Finish(context) : std::unexpected(applied.error());
    const std::string expect = head.expect;
    if (expect.starts_with("refused: ")) {
      ASSERT_FALSE(tasks) << head.name;
      EXPECT_NE(tasks.error().message.find(expect.substr(9)), std::string::npos)
          << head.name << ": " << tasks.error().message;
      continue;
    }
    ASSERT_TRUE(tasks) << head.name << ": " << tasks.error().message;
    EXPECT_EQ(Described(*tasks, description), expect) << head.name;
    EXPECT_TRUE(tasks->front().slurm) << head.name;
  }
}

TEST(SlurmHeads, TheCommandLineOverridesCountedGpus) {
  Description description;
  ASSERT_TRUE(ApplyScript("#!/bin/bash\n#SBATCH -n 4 --gpus-per-task=1\ntrue\n", "job.sh", {},
                          description));
  ASSERT_TRUE(description.Set("gpus", "2"));
  const auto tasks = description.Finish({.cwd = "/w", .home = "/h", .user = "ada"});
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->front().gpus, 2);
}

TEST(SlurmHeads, ScriptsWithoutSbatchLinesAreNotSlurmJobs) {
  Description description;
  ASSERT_TRUE(ApplyScript("#!/bin/bash\n#CARMA --gpus 2\ntrue\n", "job.sh", {}, description));
  const auto tasks = description.Finish(
      {.cwd = "/w", .home = "/h", .user = "ada", .environment = {{"SLURM_JOB_ID", "5"}}});
  ASSERT_TRUE(tasks);
  EXPECT_FALSE(tasks->front().slurm);
  EXPECT_FALSE(tasks->front().environment.contains("SLURM_JOB_ID"));
}

}  // namespace
}  // namespace carma::task

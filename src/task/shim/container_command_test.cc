#include "task/shim/container_command.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace carma::task {
namespace {

using Words = std::vector<std::string>;

ContainerRun Example(ContainerTool tool) {
  ContainerRun run;
  run.tool = tool;
  run.program = "/usr/bin/" + std::string(ToolName(tool));
  run.image = "lab/train:2";
  run.name = "carma-ab12cd-7-1";
  run.user.uid = 1001;
  run.user.gid = 1002;
  run.user.groups = {1002, 44};
  run.order.spec.workdir = "/home/ada/my work";
  run.mounts = {{"/home/ada", "/home/ada", false}, {"/data/a,b", "/data", true}};
  run.variables = {"CARMA_TASK_ID", "SEED"};
  run.order.gpu_uuids = {"GPU-1", "GPU-2"};
  run.group = "carma-ab12cd-7x2.slice";
  run.command = {"python", "train.py", "$(id)", "a b"};
  return run;
}

bool Has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

TEST(ContainerCommand, RunsPodman) {
  ContainerRun run = Example(ContainerTool::kPodman);
  run.init = "/usr/bin/catatonit";
  EXPECT_EQ(ContainerCommand(run), (Words{"/usr/bin/podman",
                                          "run",
                                          "--rm",
                                          "--name=carma-ab12cd-7-1",
                                          "--network=host",
                                          "--ipc=host",
                                          "--security-opt=no-new-privileges",
                                          "--security-opt=label=disable",
                                          "--entrypoint=",
                                          "--workdir=/home/ada/my work",
                                          "--mount",
                                          "type=bind,source=/home/ada,destination=/home/ada",
                                          "--mount",
                                          "type=bind,\"source=/data/a,b\",destination=/data,ro",
                                          "--env",
                                          "CARMA_TASK_ID",
                                          "--env",
                                          "SEED",
                                          "--cgroups=disabled",
                                          "--userns=keep-id",
                                          "--group-add=keep-groups",
                                          "--init",
                                          "--init-path=/usr/bin/catatonit",
                                          "--device",
                                          "nvidia.com/gpu=GPU-1",
                                          "--device",
                                          "nvidia.com/gpu=GPU-2",
                                          "lab/train:2",
                                          "python",
                                          "train.py",
                                          "$(id)",
                                          "a b"}));
}

TEST(ContainerCommand, RunsDocker) {
  ContainerRun run = Example(ContainerTool::kDocker);
  run.order.host.cpus = 4;
  run.order.cpu_cap = true;
  run.order.host.memory_mib = 2048;
  run.order.cores = "0-3";
  run.order.max_processes = 500;
  const Words words = ContainerCommand(run);
  for (const char* word : {"--init", "--rm", "--name=carma-ab12cd-7-1", "--user=1001:1002",
                           "--group-add=44", "--cgroup-parent=carma-ab12cd-7x2.slice", "--cpus=4",
                           "--memory=2048m", "--memory-swap=2048m", "--cpuset-cpus=0-3",
                           "--pids-limit=500", "--ipc=host", "--gpus=\"device=GPU-1,GPU-2\""})
    EXPECT_TRUE(Has(words, word)) << word;
  EXPECT_FALSE(Has(words, "--group-add=1002"));
  EXPECT_EQ(Words(words.end() - 5, words.end()),
            (Words{"lab/train:2", "python", "train.py", "$(id)", "a b"}));
}

TEST(ContainerCommand, RunsApptainer) {
  const ContainerRun run = Example(ContainerTool::kApptainer);
  EXPECT_EQ(ContainerCommand(run),
            (Words{"/usr/bin/apptainer", "exec", "--nv", "--pwd", "/home/ada/my work", "--mount",
                   "type=bind,source=/home/ada,destination=/home/ada", "--mount",
                   "type=bind,\"source=/data/a,b\",destination=/data,ro", "docker://lab/train:2",
                   "python", "train.py", "$(id)", "a b"}));
}

TEST(ContainerCommand, GivesNoGpuWithoutOne) {
  for (const auto tool :
       {ContainerTool::kPodman, ContainerTool::kDocker, ContainerTool::kApptainer}) {
    ContainerRun run = Example(tool);
    run.order.gpu_uuids.clear();
    for (const std::string& word : ContainerCommand(run)) {
      EXPECT_FALSE(word.starts_with("--gpus") || word.starts_with("nvidia.com") || word == "--nv")
          << word;
    }
  }
}

TEST(ContainerCommand, ConnectsATerminal) {
  ContainerRun run = Example(ContainerTool::kDocker);
  EXPECT_FALSE(Has(ContainerCommand(run), "--tty"));
  run.order.spec.attach = "0123456789abcdef0123456789abcdef";
  run.order.spec.terminal = true;
  EXPECT_TRUE(Has(ContainerCommand(run), "--tty"));
  EXPECT_TRUE(Has(ContainerCommand(run), "--interactive"));
}

TEST(ContainerCommand, RemovesByName) {
  EXPECT_EQ(ContainerRemoval(Example(ContainerTool::kDocker)),
            (Words{"/usr/bin/docker", "rm", "--force", "carma-ab12cd-7-1"}));
  EXPECT_TRUE(ContainerRemoval(Example(ContainerTool::kApptainer)).empty());
}

TEST(ContainerCommand, RecognisesItsControlGroup) {
  const std::string group = ContainerGroup("ab12cd", core::TaskId{7}, 2);
  EXPECT_EQ(group, "carma-ab12cd-7x2.slice");
  EXPECT_TRUE(IsInContainerGroup("/carma-ab12cd-7x2.slice/0123", group));
  EXPECT_TRUE(IsInContainerGroup(
      "/carma.slice/carma-ab12cd.slice/carma-ab12cd-7x2.slice/docker-0123.scope", group));
  EXPECT_FALSE(IsInContainerGroup("/carma-ab12cd-7x22.slice/0123", group));
  // A user can create groups of any name below the user's own session.
  EXPECT_FALSE(IsInContainerGroup(
      "/user.slice/user-1001.slice/user@1001.service/carma-ab12cd-7x2.slice", group));
  EXPECT_FALSE(IsInContainerGroup("/", group));
}

TEST(ContainerCommand, KeepsTheServersProgramsOutOfTheContainer) {
  EXPECT_EQ(ContainerVariables({{"CARMA_TASK_ID", "7"},
                                {"CONDA_PREFIX", "/opt"},
                                {"CUDA_VISIBLE_DEVICES", "GPU-1"},
                                {"BASH_FUNC_x%%", "() { :; }"},
                                {"DOCKER_HOST", "unix:///x"},
                                {"HOME", "/home/ada"},
                                {"LD_PRELOAD", "/x.so"},
                                {"PATH", "/bin"},
                                {"SEED", "1"}}),
            (Words{"CARMA_TASK_ID", "CUDA_VISIBLE_DEVICES", "HOME", "SEED"}));
}

}  // namespace
}  // namespace carma::task

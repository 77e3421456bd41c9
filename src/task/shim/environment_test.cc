#include "task/shim/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace carma::task {
namespace {

using ::testing::HasSubstr;

ShimOrder SmallOrder() {
  ShimOrder order;
  order.id = core::TaskId(12);
  order.attempt = 2;
  order.spec.name = "resnet";
  order.spec.workdir = "/data/ada";
  order.gpu_uuids = {"GPU-aa", "GPU-bb"};
  return order;
}

const UserInfo kAda{
    .uid = 1000, .gid = 1000, .name = "ada", .home = "/home/ada", .shell = "/bin/zsh"};

TEST(Environment, DescribesTheTaskAndItsGpus) {
  ShimOrder order = SmallOrder();
  order.spec.array_index = 5;
  order.checkpoint_signal = "USR1";
  order.checkpoint_notice = base::Duration(90'000);
  const Environment env = TaskEnvironment(order, kAda, nullptr, "/state/12/2");
  const Environment expect = {{"APPTAINER_NV", "1"},
                              {"CARMA_ARRAY_INDEX", "5"},
                              {"CARMA_ATTEMPT", "2"},
                              {"CARMA_ATTEMPT_DIR", "/state/12/2"},
                              {"CARMA_CHECKPOINT_DIR", "/data/ada/carma-12.ckpt"},
                              {"CARMA_CHECKPOINT_NOTICE", "90"},
                              {"CARMA_CHECKPOINT_SIGNAL", "USR1"},
                              {"CARMA_CONTAINER_GROUP", "carma--12x2.slice"},
                              {"CARMA_RESTARTS", "1"},
                              {"CARMA_TASK_ID", "12"},
                              {"CARMA_TASK_NAME", "resnet"},
                              {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                              {"CUDA_VISIBLE_DEVICES", "GPU-aa,GPU-bb"},
                              {"HOME", "/home/ada"},
                              {"LOGNAME", "ada"},
                              {"NVIDIA_VISIBLE_DEVICES", "GPU-aa,GPU-bb"},
                              {"PATH", "/usr/local/bin:/usr/bin:/bin"},
                              {"PWD", "/data/ada"},
                              {"PYTHONUNBUFFERED", "1"},
                              {"SHELL", "/bin/zsh"},
                              {"USER", "ada"}};
  EXPECT_EQ(env, expect);
}

TEST(Environment, KeepsTheSubmittersVariablesExceptItsGpus) {
  ShimOrder order = SmallOrder();
  order.spec.environment = {{"HOME", "/scratch"},
                            {"CUDA_VISIBLE_DEVICES", "0"},
                            {"OLDPWD", "/"},
                            {"LD_PRELOAD", "x.so"},
                            {"CARMA_ARRAY_INDEX", "3"}};
  const Environment env = TaskEnvironment(order, kAda, nullptr, "/a");
  EXPECT_EQ(env.at("HOME"), "/scratch");
  EXPECT_EQ(env.at("LD_PRELOAD"), "x.so");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "GPU-aa,GPU-bb");
  EXPECT_FALSE(env.contains("OLDPWD"));
  EXPECT_FALSE(env.contains("CARMA_ARRAY_INDEX"));
}

TEST(Environment, GivesAScriptForSlurmItsVariables) {
  ShimOrder order = SmallOrder();
  order.spec.slurm = true;
  order.spec.array_index = 3;
  order.array = core::TaskId(10);
  order.spec.environment = {{"SLURM_CPUS_PER_TASK", "8"}, {"PATH", "/opt/slurm/bin:/bin"}};
  const Environment env = TaskEnvironment(order, kAda, nullptr, "/a");
  const std::map<std::string, std::string> expect{
      {"SLURM_JOB_ID", "12"},
      {"SLURM_JOBID", "12"},
      {"SLURM_JOB_NAME", "resnet"},
      {"SLURM_ARRAY_JOB_ID", "10"},
      {"SLURM_ARRAY_TASK_ID", "3"},
      {"SLURM_RESTART_COUNT", "1"},
      {"SLURM_CPUS_PER_TASK", "8"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NNODES", "1"},
      {"SLURM_GPUS_ON_NODE", "2"},
      {"SLURM_JOB_USER", "ada"},
      {"SLURM_CPUS_ON_NODE", "1"},
      {"SLURM_JOB_GPUS", env.at("CUDA_VISIBLE_DEVICES")}};
  for (const auto& [name, value] : expect) EXPECT_EQ(env.at(name), value) << name;
  EXPECT_FALSE(env.contains("SLURM_NTASKS")) << "set only if requested, as in Slurm";
  EXPECT_TRUE(env.at("PATH").ends_with(":/opt/slurm/bin:/bin"));
  EXPECT_NE(env.at("PATH"), "/opt/slurm/bin:/bin") << "CARMA's srun comes first";
  order.spec.slurm = false;
  EXPECT_FALSE(TaskEnvironment(order, kAda, nullptr, "/a").contains("SLURM_JOB_ID"))
      << "mpirun would look for a cluster";
}

TEST(Environment, ExtraVariablesWin) {
  ShimOrder order = SmallOrder();
  order.spec.environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/mine"}};
  order.extra_environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"},
                             {"CUDA_VISIBLE_DEVICES", "MIG-1"}};
  const Environment env = TaskEnvironment(order, kAda, nullptr, "/a");
  EXPECT_EQ(env.at("CUDA_MPS_PIPE_DIRECTORY"), "/run/mps");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "MIG-1");
}

TEST(Environment, ShowsApptainerTheFolderOfMps) {
  ShimOrder order = SmallOrder();
  order.spec.environment = {{"APPTAINER_BIND", "/data"}};
  order.extra_environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}};
  EXPECT_EQ(TaskEnvironment(order, kAda, nullptr, "/a").at("APPTAINER_BIND"), "/data,/run/mps");
  order.extra_environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/dev/null"}};  // no MPS
  EXPECT_EQ(TaskEnvironment(order, kAda, nullptr, "/a").at("APPTAINER_BIND"), "/data");
}

TEST(Environment, CondaComesFirstInThePath) {
  ShimOrder order = SmallOrder();
  order.spec.environment = {{"PATH", "/bin"}};
  const CondaEnv conda{"/opt/conda/envs/torch", "torch"};
  const Environment env = TaskEnvironment(order, kAda, &conda, "/a");
  EXPECT_EQ(env.at("PATH"), "/opt/conda/envs/torch/bin:/bin");
  EXPECT_EQ(env.at("CONDA_PREFIX"), "/opt/conda/envs/torch");
  EXPECT_EQ(env.at("CONDA_DEFAULT_ENV"), "torch");
}

TEST(Environment, HasTheVariablesThatCondaKeepsForAnEnvironment) {
  std::string prefix = ::testing::TempDir() + "/carma-conda-XXXXXX";
  ASSERT_NE(::mkdtemp(prefix.data()), nullptr);
  const auto found = [&] {
    return FindCondaEnv(prefix, {}, "/home/ada", [](const std::string&) { return true; }).value();
  };
  EXPECT_TRUE(found().variables.empty()) << "no file";
  std::filesystem::create_directory(prefix + "/conda-meta");
  const auto keep = [&](const std::string& text) {
    std::ofstream(prefix + "/conda-meta/state") << text;
  };
  for (const char* wrong : {"", "{", "[]", "{}", R"({"env_vars":[1]})"}) {
    keep(wrong);
    EXPECT_TRUE(found().variables.empty()) << wrong;
  }
  keep(R"({"env_vars":{"DATA":"/d","OLD":"***unset***","A=B":"x","N":1},"version":1})");
  const CondaEnv conda = found();
  std::filesystem::remove_all(prefix);
  EXPECT_EQ(conda.variables, (Environment{{"DATA", "/d"}, {"OLD", "***unset***"}}));
  ShimOrder order = SmallOrder();
  order.spec.environment = {{"DATA", "/own"}, {"OLD", "1"}};
  const Environment env = TaskEnvironment(order, kAda, &conda, "/a");
  EXPECT_EQ(env.at("DATA"), "/d") << "as after conda activate";
  EXPECT_FALSE(env.contains("OLD"));
}

TEST(Environment, FindsCondaEnvironmentsWhereCondaPutsThem) {
  struct Case {
    const char* name;
    const char* wanted;
    Environment environment;
    const char* exists;  // the only folder that exists
    const char* prefix;  // empty: not found
  };
  const Case cases[] = {
      {"by path", "/srv/envs/t", {}, "/srv/envs/t/bin", "/srv/envs/t"},
      {"by path with a trailing slash", "/srv/envs/t/", {}, "/srv/envs/t/bin", "/srv/envs/t"},
      {"in the home", "t", {}, "/home/ada/miniconda3/envs/t/bin", "/home/ada/miniconda3/envs/t"},
      {"in the user's own list", "t", {}, "/home/ada/.conda/envs/t/bin", "/home/ada/.conda/envs/t"},
      {"system-wide", "t", {}, "/opt/conda/envs/t/bin", "/opt/conda/envs/t"},
      {"next to the submitter's conda",
       "t",
       {{"CONDA_EXE", "/sw/conda/bin/conda"}},
       "/sw/conda/envs/t/bin",
       "/sw/conda/envs/t"},
      {"below CONDA_ROOT", "t", {{"CONDA_ROOT", "/r"}}, "/r/envs/t/bin", "/r/envs/t"},
      {"in CONDA_ENVS_PATH", "t", {{"CONDA_ENVS_PATH", "/x:/y"}}, "/y/t/bin", "/y/t"},
      {"the base", "base", {}, "/home/ada/miniforge3/bin", "/home/ada/miniforge3"},
      {"nowhere", "t", {}, "/elsewhere/bin", ""},
      {"a path out of the folder is refused", "../t", {}, "/home/ada/miniconda3/envs/../t/bin", ""},
      {"no name", "", {}, "/bin", ""},
  };
  for (const Case& c : cases) {
    const Result<CondaEnv> found =
        FindCondaEnv(c.wanted, c.environment, "/home/ada",
                     [&c](const std::string& path) { return path == c.exists; });
    EXPECT_EQ(found ? found->prefix : "", c.prefix) << c.name;
  }
}

TEST(Environment, ReportsWhereItLookedForACondaEnvironment) {
  const Result<CondaEnv> found =
      FindCondaEnv("torch", {}, "/home/ada", [](const std::string&) { return false; });
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("/home/ada/miniconda3/envs/torch"));
  EXPECT_THAT(found.error().message, HasSubstr("/opt/conda/envs/torch"));
}

TEST(Shebang, ParsesAsTheKernelDoes) {
  struct Case {
    const char* name;
    const char* script;
    const char* interpreter;  // empty: refused
    const char* argument;
  };
  const Case cases[] = {
      {"plain", "#!/bin/sh\necho\n", "/bin/sh", ""},
      {"with blanks", "#! /bin/bash  -e \n", "/bin/bash", "-e"},
      {"env with a program", "#!/usr/bin/env python3\n", "/usr/bin/env", "python3"},
      {"several words are one argument", "#!/usr/bin/env -S uv run\n", "/usr/bin/env", "-S uv run"},
      {"no newline", "#!/bin/sh", "/bin/sh", ""},
      {"no first line", "echo hi\n", "", ""},
      {"empty script", "", "", ""},
      {"an empty line first", "\n#!/bin/sh\n", "", ""},
      {"nothing after #!", "#!\n", "", ""},
      {"a relative interpreter", "#!bash\n", "", ""},
      {"DOS line endings", "#!/bin/sh\r\n", "", ""},
  };
  for (const Case& c : cases) {
    const Result<Shebang> got = ParseShebang(c.script);
    EXPECT_EQ(got ? got->interpreter : "", c.interpreter) << c.name;
    EXPECT_EQ(got ? got->argument : "", c.argument) << c.name;
  }
  EXPECT_FALSE(ParseShebang("#!/bin/sh -" + std::string(5000, 'x')));
}

TEST(Shebang, KnowsLoginShells) {
  for (const char* line : {"#!/bin/bash -l", "#!/bin/bash --login", "#!/usr/bin/zsh -l"})
    EXPECT_TRUE(IsLoginShell(ParseShebang(line).value())) << line;
  for (const char* line : {"#!/bin/bash", "#!/usr/bin/perl -l", "#!/bin/tcsh -l"})
    EXPECT_FALSE(IsLoginShell(ParseShebang(line).value())) << line;
}

}  // namespace
}  // namespace carma::task

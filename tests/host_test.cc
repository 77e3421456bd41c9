// Tests how cores and host memory are allotted, and tasks without a GPU, using real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "base/open_files.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Host : public ::testing::Test {
 protected:
  // The cores and memory that tasks can get, regardless of what this machine has.
  Site site{{.shape = "1xA100-40GB", .settings = {{"host.cpus", "4"}, {"host.memory", "\"8G\""}}}};
};

TEST_F(Host, TasksWithoutGpuWaitForNoGpu) {
  site.Start();
  Gated holder(site, "holder");
  const std::uint64_t holds = holder.Submit(site, "exit 0", {"--exclusive"});
  ASSERT_EQ(holder.Hear(), "1");
  const std::uint64_t waits = site.Submit({"--wrap", "true"});
  site.ExpectWaits(waits, "Exclusive");
  const std::uint64_t without = site.Submit(
      {"-G", "0", "-c", "2", "--mem", "1G", "--wrap",
       "echo \"gpus=<$CUDA_VISIBLE_DEVICES> cpus=$CARMA_CPUS memory=$CARMA_HOST_MEMORY_MIB\""});
  const api::TaskView ended = site.Await(without);
  EXPECT_EQ(ended.state, "succeeded");
  EXPECT_EQ(ended.gpus, 0);
  EXPECT_EQ(ended.cpus, 2);
  EXPECT_EQ(ended.host_memory_mib, 1024);
  EXPECT_THAT(site.Output(without), HasSubstr("gpus=<> cpus=2 memory=1024"));
  const std::string shown = site.Carma({"show", std::to_string(without)}).out;
  EXPECT_THAT(shown, HasSubstr("none"));
  EXPECT_THAT(shown, HasSubstr("1.0G"));
  for (const Words& verb : {Words{"list", "--all"}, Words{"explain", std::to_string(without)},
                            Words{"history", std::to_string(without)}, Words{"gpus"}}) {
    const Ran ran = site.Carma(verb);
    EXPECT_EQ(ran.code, 0) << verb[0] << ran.err;
  }
  const Ran usage = site.Carma({"usage", "--json"});
  EXPECT_EQ(usage.code, 0) << usage.err;
  holder.Open();
  EXPECT_EQ(site.Await(holds).state, "succeeded");
  EXPECT_EQ(site.Await(waits).state, "succeeded");
}

TEST_F(Host, OneUsersConnectionsFindEnoughOpenFilesWhereTheUsualLimitIsLow) {
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit low{.rlim_cur = 256, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  site.Start();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlim_t raised = std::min<rlim_t>(usual.rlim_max, base::kManyOpenFiles);
  EXPECT_THAT(site.client().Get("/metrics").value_or(""),
              HasSubstr("process_max_fds " + std::to_string(raised) + "\n"));
}

TEST_F(Host, WaitsForPromisedMemoryEvenAfterAKill) {
  site.Start();
  Gated first(site, "first");
  const std::uint64_t runs = first.Submit(site, "exit 0", {"-G", "0", "--mem", "5G"});
  ASSERT_EQ(first.Hear(), "1");
  const std::uint64_t waits = site.Submit({"--mem", "4G", "--wrap", "true"});
  site.ExpectWaits(waits, "HostMemory");
  const std::string why = site.Carma({"explain", std::to_string(waits)}).out;
  EXPECT_THAT(why, HasSubstr("4.0G of host memory"));
  EXPECT_THAT(why, HasSubstr("3.0G of 8.0G is free"));
  site.Restart(SIGKILL);
  site.ExpectWaits(waits, "HostMemory");
  EXPECT_EQ(site.Status().host.free_memory_mib, 3072);
  const Ran refused = site.Carma({"submit", "--mem", "9G", "--wrap", "true"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("can never run here"));
  first.Open();
  EXPECT_EQ(site.Await(runs).state, "succeeded");
  EXPECT_EQ(site.Await(waits).state, "succeeded");
}

TEST_F(Host, CoresAreCountedAndAChangedConfigurationHolds) {
  site.Start();
  Gated first(site, "first");
  const std::uint64_t runs = first.Submit(site, "exit 0", {"-G", "0", "-c", "3"});
  ASSERT_EQ(first.Hear(), "1");
  const std::uint64_t waits = site.Submit({"-G", "0", "-c", "2", "--wrap", "true"});
  site.ExpectWaits(waits, "Cpus");
  site.Set("host.cpus", "5");
  site.daemon().Signal(SIGHUP);
  EXPECT_EQ(site.Await(waits).state, "succeeded");
  first.Open();
  EXPECT_EQ(site.Await(runs).state, "succeeded");
}

TEST_F(Host, ATaskRunsOnItsOwnCore) {
  site.Start();
  const std::uint64_t id = site.Submit(
      {"-G", "0", "-c", "1", "--own-cpus", "--wrap", "grep Cpus_allowed_list /proc/self/status"});
  const api::TaskView ended = site.Await(id);
  EXPECT_EQ(ended.state, "succeeded");
  ASSERT_FALSE(ended.own_cores.empty());
  EXPECT_THAT(site.Output(id), HasSubstr("\t" + ended.own_cores + "\n"));
}

TEST_F(Host, ReportsLimitsThatNothingEnforces) {
  site.Start();
  const api::HostView host = site.Status().host;
  if (host.not_enforced.empty()) GTEST_SKIP() << "this machine enforces everything";
  Gated task(site, "task");
  const std::uint64_t id =
      task.Submit(site, "exit 0", {"-G", "0", "-c", "1", "--mem", "1G", "--own-cpus"});
  ASSERT_EQ(task.Hear(), "1");
  EXPECT_THAT(site.Task(id).host_note, HasSubstr("CARMA cannot enforce"));
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              HasSubstr("not enforced"));
  task.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
}

TEST_F(Host, ATaskThatTakesMoreMemoryThanItsLimitIsKilledForIt) {
  site.Start();
  const api::HostView host = site.Status().host;
  if (host.enforced.find("memory") == std::string::npos) GTEST_SKIP() << host.not_enforced;
  const std::uint64_t id = site.Submit({"-G", "0", "--mem", "64M", "--", "python3", "-c",
                                        "x = bytearray(512 << 20); print(len(x))"});
  const api::TaskView ended = site.Await(id);
  EXPECT_EQ(ended.state, "failed");
  EXPECT_EQ(ended.reason, "HostMemory");
  EXPECT_THAT(ended.reason_text, HasSubstr("the task was promised 64M"));
}

TEST_F(Host, TheKernelWeighsAndCapsCores) {
  site.Set("host.cpu_limit", "\"cap\"");
  site.Start();
  const api::HostView host = site.Status().host;
  if (host.enforced.find("cores (as a cap)") == std::string::npos)
    GTEST_SKIP() << host.not_enforced;
  const std::uint64_t id =
      site.Submit({"-G", "0", "-c", "3", "--wrap",
                   "cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); cat cpu.weight cpu.max"});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_EQ(site.Output(id), "300\n300000 100000\n");
}

// The script's directives request resources, as on a cluster.
TEST_F(Host, ABatchScriptGetsItsRequest) {
  site.Start();
  WriteText(site.out_dir() + "/job.sh",
            "#!/bin/sh\n#SBATCH --gpus=0 -c 2\n#SBATCH --mem-per-cpu=512M\n"
            "echo \"on=$SLURM_CPUS_ON_NODE of=$CARMA_HOST_MEMORY_MIB\"\n",
            0755);
  const std::uint64_t id = site.Submit({"job.sh"});
  const api::TaskView ended = site.Await(id);
  EXPECT_EQ(ended.cpus, 2);
  EXPECT_EQ(ended.host_memory_mib, 1024);
  EXPECT_THAT(site.Output(id), HasSubstr("on=2 of=1024"));
}

}  // namespace
}  // namespace carma::system_test

#include "cli/pilot/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::cli {
namespace {

using config::Environment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The environment of a batch script of job 12, with additional variables.
Environment Job(Environment more = {}) {
  Environment environment = {{"SLURM_JOB_ID", "12"}, {"SLURMD_NODENAME", "n0"}};
  environment.merge(more);
  return environment;
}

std::vector<std::string> Gpus(const Environment& environment) {
  const auto allocation = ReadAllocation(environment, false);
  EXPECT_TRUE(allocation) << allocation.error().message;
  return allocation ? allocation->gpus.value_or(std::vector<std::string>{"all"})
                    : std::vector<std::string>{};
}

std::string Trouble(const Environment& environment) {
  const auto allocation = ReadAllocation(environment, false);
  if (allocation) return "no error";
  EXPECT_EQ(allocation.error().code, ErrorCode::kInvalid);
  return allocation.error().message;
}

TEST(Allocation, ItsGpusAreThoseThatTheProcessMayUse) {
  EXPECT_THAT(Gpus(Job({{"CUDA_VISIBLE_DEVICES", "2,3"}})), ElementsAre("2", "3"));
  EXPECT_THAT(Gpus(Job({{"CUDA_VISIBLE_DEVICES", "GPU-3f,MIG-77"}})),
              ElementsAre("GPU-3f", "MIG-77"));
  EXPECT_THAT(Gpus(Job({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_JOB_GPUS", "3"}})), ElementsAre("0"))
      << "indices within the device cgroup";
  EXPECT_THAT(Gpus(Job({{"SLURM_JOB_GPUS", "0-2,5"}})), ElementsAre("0", "1", "2", "5"));
  EXPECT_THAT(Gpus(Job({{"SLURM_JOB_GPUS", "0,1"}, {"SLURM_STEP_GPUS", "1"}})), ElementsAre("1"));
  EXPECT_THAT(Gpus({}), ElementsAre("all")) << "outside a job";
  EXPECT_THAT(Gpus({{"CUDA_VISIBLE_DEVICES", "1"}}), ElementsAre("1"));
}

TEST(Allocation, AJobWithoutGpusIsRefused) {
  EXPECT_THAT(Trouble(Job()), HasSubstr("job 12 has no GPU"));
  for (const char* none : {"", "NoDevFiles", "-1"})
    EXPECT_THAT(Trouble(Job({{"CUDA_VISIBLE_DEVICES", none}})), HasSubstr("--gres=gpu")) << none;
  EXPECT_TRUE(ReadAllocation(Job(), /*named_gpus=*/true));
}

TEST(Allocation, APilotMustRunOnTheOneNodeOfItsJob) {
  const Environment two = Job({{"SLURM_JOB_NUM_NODES", "2"}, {"CUDA_VISIBLE_DEVICES", "0"}});
  EXPECT_THAT(Trouble(two), HasSubstr("srun --ntasks-per-node=1"));
  Environment step = two;
  step["SLURM_STEP_ID"] = "0";
  EXPECT_THAT(Gpus(step), ElementsAre("0"));
  EXPECT_THAT(Trouble({{"SLURM_JOB_ID", "12"}}), HasSubstr("srun carma pilot"));
  EXPECT_THAT(Trouble({{"SLURM_JOB_ID", "../x"}}), HasSubstr("SLURM_JOB_ID"));
}

TEST(Allocation, ReadsCoresMemoryAndEnd) {
  const auto all = ReadAllocation(Job({{"CUDA_VISIBLE_DEVICES", "0,1"},
                                       {"SLURM_CPUS_ON_NODE", "8"},
                                       {"SLURM_MEM_PER_CPU", "2000"},
                                       {"SLURM_JOB_END_TIME", "1790000000"}}),
                                  false);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->cpus, 8);
  EXPECT_EQ(all->memory_mib, 16'000);
  EXPECT_EQ(all->ends, base::FromMs(1'790'000'000'000));
  const auto node =
      ReadAllocation(Job({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_MEM_PER_NODE", "64000"}}), false);
  EXPECT_EQ(node->memory_mib, 64'000);
  EXPECT_EQ(node->cpus, std::nullopt);
  const auto whole =
      ReadAllocation(Job({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_MEM_PER_NODE", "0"}}), false);
  EXPECT_EQ(whole->memory_mib, std::nullopt) << "--mem=0 means all of the node's memory";
}

}  // namespace
}  // namespace carma::cli

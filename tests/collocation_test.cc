// Tests tasks that share GPUs, run out of memory, and are retried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr double kLong = 100'000;  // runs until it is cancelled

TEST(Collocation, TwoTasksShareAGpuWhenTheyFit) {
  Site site({.shape = "1xA100-40GB"});
  site.Start();
  const Training half{.memory_mib = 15'000, .solo_s = kLong, .sm_active = 0.3};
  const std::uint64_t first = site.Train({"--gpu-mem", "15000"}, half);
  const std::uint64_t second = site.Train({"--gpu-mem", "15000"}, half);
  const std::uint64_t third = site.Train({"--gpu-mem", "15000"}, half);
  site.AwaitState(first, "running");
  site.AwaitState(second, "running");
  ASSERT_TRUE(Eventually([&] { return site.Gpus()[0].used_mib >= 30'000; }));
  const api::GpuView gpu = site.Gpus()[0];
  EXPECT_EQ(gpu.claimed_mib, 30'000);
  EXPECT_EQ(gpu.tasks.size(), 2U);
  site.ExpectWaits(third, "GpuMemory");  // once the GPU has warmed up
  EXPECT_THAT(site.Carma({"explain", std::to_string(third)}).out, HasSubstr("GpuMemory"));
  EXPECT_THAT(site.Carma({"gpus"}).out, HasSubstr("mix"));
  site.Carma({"cancel", std::to_string(first)});
  site.AwaitState(third, "running");
  site.CancelAll();
  for (const std::uint64_t id : {first, second, third})
    EXPECT_EQ(site.Await(id).state, "cancelled");
  site.ExpectIdle();
}

TEST(Collocation, AnExclusiveTaskHasNoNeighbours) {
  Site site({.shape = "1xA100-40GB"});
  site.Start();
  const std::uint64_t alone =
      site.Train({"--exclusive", "--gpu-mem", "4G"}, {.memory_mib = 4000, .solo_s = kLong});
  site.AwaitState(alone, "running");
  const std::uint64_t other = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  site.ExpectWaits(other, "Exclusive");
  EXPECT_THAT(site.Carma({"explain", std::to_string(other)}).out, HasSubstr("Exclusive"));
  EXPECT_EQ(site.Gpus()[0].state, "alloc");
  site.Carma({"cancel", std::to_string(alone)});
  EXPECT_EQ(site.Await(other).state, "succeeded");
}

TEST(Collocation, AGpuWithATaskIsFullIfGpusAreNeverShared) {
  Site site({.shape = "1xA100-40GB", .settings = {{"policy.mapper", "\"exclusive\""}}});
  site.Start();
  const std::uint64_t alone =
      site.Train({"--gpu-mem", "4G"}, {.memory_mib = 4000, .solo_s = kLong});
  site.AwaitState(alone, "running");
  EXPECT_EQ(site.Gpus()[0].state, "alloc");
  site.CancelAll();
  EXPECT_EQ(site.Await(alone).state, "cancelled");
}

// ---- out of memory ----

struct Framework {
  const char* name;
  const char* text;  // the framework's own out-of-memory message
};

class OutOfMemory : public ::testing::TestWithParam<std::tuple<const char*, Framework>> {};

// Both tasks request too little memory, so the one that allocates second fails.
TEST_P(OutOfMemory, AnUnderestimatedTaskIsRetriedAndSucceeds) {
  const auto& [mode, framework] = GetParam();
  Site site({.settings = {{"recovery.mode", "\"" + std::string(mode) + "\""}}});
  site.Start();
  Training big{.memory_mib = 24'000,
               .solo_s = kLong,
               .sm_active = 0.3,
               .more = {"--framework", framework.name}};
  EXPECT_TRUE(site.Carma({"drain", "1"}).Ok());
  const std::uint64_t neighbour = site.Train({"--gpu-mem", "8G"}, big);
  ASSERT_TRUE(Eventually([&] { return site.Task(neighbour).observed_mib >= 24'000; }));
  // The neighbour's actual usage is known by now: 16 GiB are free, so an 8 GiB request fits.
  big.solo_s = 50;
  const std::uint64_t crashes = site.Train({"--gpu-mem", "8G"}, big);
  ASSERT_TRUE(Eventually([&] { return site.Task(crashes).ooms > 0; }));
  EXPECT_TRUE(site.Carma({"resume", "1"}).Ok());
  const api::TaskView task = site.Await(crashes);
  EXPECT_EQ(task.state, "succeeded") << task.reason_text << site.Output(crashes);
  // The first retry gets only a little more memory than requested, which may still be too little.
  EXPECT_LE(task.ooms, std::string_view(mode) == "exclusive" ? 1 : 2);
  EXPECT_EQ(task.attempt, task.ooms + 1);
  EXPECT_EQ(task.gpu_indices.at(0), 1);
  EXPECT_THAT(site.Output(crashes), HasSubstr(framework.text));
  const Ran history = site.Carma({"history", std::to_string(crashes)});
  EXPECT_THAT(history.out, HasSubstr("OutOfMemory"));
  EXPECT_EQ(site.Task(neighbour).state, "running") << "the newcomer crashes, not the resident";
  site.Carma({"cancel", std::to_string(neighbour)});
  EXPECT_EQ(site.Await(neighbour).state, "cancelled");
  site.ExpectIdle();
}

INSTANTIATE_TEST_SUITE_P(
    Modes, OutOfMemory,
    ::testing::Values(std::tuple("escalate", Framework{"pytorch", "CUDA out of memory"}),
                      std::tuple("escalate", Framework{"tensorflow", "OOM when allocating"}),
                      std::tuple("escalate", Framework{"jax", "RESOURCE_EXHAUSTED"}),
                      std::tuple("exclusive", Framework{"pytorch", "CUDA out of memory"})),
    [](const auto& param) {
      return std::string(std::get<0>(param.param)) + "_" + std::get<1>(param.param).name;
    });

TEST(Recovery, AFailingScriptIsAFailureAndIsNotRetried) {
  Site site;
  site.Start();
  const struct {
    const char* what;
    const char* script;
    const char* state;
  } kCases[] = {
      {"an ordinary failure", "echo 'ValueError: no such file' >&2; exit 1", "failed"},
      {"host memory", "echo 'MemoryError' >&2; exit 1", "failed"},
      {"the message on standard output only", "exit 1", "failed"},
      {"a warning after which the program continued",
       "echo 'CUDA out of memory, trying a smaller batch' >&2", "succeeded"},
      {"TensorFlow's harmless allocator line",
       "echo 'W tensorflow/core: Allocator (GPU_0_bfc) ran out of memory trying to allocate 2GiB. "
       "The caller indicates that this is not a failure' >&2; exit 0",
       "succeeded"},
  };
  for (const auto& each : kCases) {
    const std::uint64_t id =
        site.Submit({"--error", "err-%j.txt", "--", "/bin/sh", "-c", each.script});
    const api::TaskView task = site.Await(id);
    EXPECT_EQ(task.state, each.state) << each.what;
    EXPECT_EQ(task.attempt, 1) << each.what;
    EXPECT_EQ(task.ooms, 0) << each.what;
  }
}

TEST(Recovery, ATaskLargerThanTheLargestGpuEndsOutOfMemory) {
  Site site({.shape = "1xA100-40GB"});
  site.Start();
  const std::uint64_t id = site.Train({}, {.memory_mib = 45'000, .solo_s = 10});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "out_of_memory") << task.reason_text;
  EXPECT_LE(task.ooms, 2) << "alone on the largest GPU there is nothing left to try";
  EXPECT_NE(site.Carma({"wait", std::to_string(id)}).code, 0);
  site.ExpectIdle();
}

TEST(Recovery, RetriesAreBounded) {
  Site site;
  site.Start();
  const std::uint64_t id = site.Submit(
      {"--retries", "0", "--", "/bin/sh", "-c", "echo 'CUDA out of memory' >&2; exit 1"});
  EXPECT_EQ(site.Await(id).state, "out_of_memory");
  EXPECT_EQ(site.Task(id).attempt, 1);
}

TEST(Recovery, ARecoveringTaskDoesNotStopTheMainQueue) {
  Site site({.shape = "2xA100-40GB",
             .settings = {{"recovery.mode", "\"exclusive\""}, {"policy.settle", "false"}}});
  site.Start();
  // Each GPU has a neighbour that never ends, so the crashed task finds no idle GPU.
  std::vector<std::uint64_t> residents;
  for (int i = 0; i < 2; ++i) {
    residents.push_back(site.Train({"--gpu-mem", "20G"}, {.memory_mib = 20'000, .solo_s = kLong}));
    site.AwaitState(residents.back(), "running");
  }
  const std::uint64_t crashes =
      site.Submit({"--gpu-mem", "1G", "--", "/bin/sh", "-c",
                   "[ $CARMA_ATTEMPT != 1 ] || { echo 'CUDA out of memory' >&2; exit 1; }"});
  ASSERT_TRUE(Eventually([&] { return site.Task(crashes).ooms == 1; }));
  EXPECT_EQ(site.Task(crashes).queue, "recovery");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(site.Await(site.Submit({"--gpu-mem", "1G", "--", "/bin/true"})).state, "succeeded");
  }
  EXPECT_EQ(site.Task(crashes).state, "queued");
  site.Carma({"cancel", std::to_string(residents[0])});
  EXPECT_EQ(site.Await(crashes).state, "succeeded");
}

}  // namespace
}  // namespace carma::system_test

// Tests MIG GPUs, whose instances are listed as separate GPUs alongside unpartitioned ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/json.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr double kLongTask = 100'000;  // runs until it is cancelled

class Mig : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }

  // Memory in use on a GPU or instance, in MiB, as reported by the simulated server itself.
  std::int64_t UsedMib(const std::string& uuid) {
    const Ran ran = site.SimGpu({"show", "--json"});
    const base::Json json = base::Json::parse(ran.out, nullptr, false);
    for (const char* list : {"gpus", "instances"}) {
      for (const base::Json& place : json[list]) {
        if (place["uuid"] == uuid) return place["used_mib"];
      }
    }
    return -1;
  }
  api::GpuView Gpu(std::int64_t index) { return site.Gpus().at(static_cast<std::size_t>(index)); }

  Site site{{.shape = "A100-40GB:mig=3g.20gb+1g.5gb,A100-40GB"}};
};

TEST_F(Mig, InstancesAreListedInsteadOfTheirGpu) {
  const std::vector<api::GpuView> gpus = site.Gpus();
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_EQ(gpus[0].mig_profile, "3g.20gb");
  EXPECT_EQ(gpus[1].mig_profile, "1g.5gb");
  EXPECT_EQ(gpus[0].mig_parent, gpus[1].mig_parent);
  EXPECT_EQ(gpus[2].mig_profile, "");
  EXPECT_EQ(gpus[0].total_mib, 20'480);
  EXPECT_THAT(site.Carma({"gpus"}).out, HasSubstr("3g.20gb"));
}

TEST_F(Mig, ATaskRunsOnItsInstanceAloneAndLargeOnesGoElsewhere) {
  const auto small = site.Train({"--gpu-mem", "4G"}, {.memory_mib = 4'000, .solo_s = kLongTask});
  const auto large = site.Train({"--gpu-mem", "30G"}, {.memory_mib = 30'000, .solo_s = kLongTask});
  const auto medium = site.Train({"--gpu-mem", "9G"}, {.memory_mib = 9'000, .solo_s = kLongTask});
  std::vector<std::int64_t> used;
  for (const std::uint64_t id : {small, large, medium}) {
    const api::TaskView task = site.AwaitState(id, "running");
    ASSERT_EQ(task.gpu_uuids.size(), 1U);
    const std::int64_t memory_mib = id == small ? 4'000 : id == large ? 30'000 : 9'000;
    EXPECT_TRUE(Eventually([&] { return UsedMib(task.gpu_uuids[0]) >= memory_mib; }));
    used.push_back(task.gpu_indices.at(0));
    EXPECT_EQ(Gpu(used.back()).state, used.back() == 2 ? "mix" : "alloc");
  }
  EXPECT_EQ(used[1], 2) << "only the whole GPU is large enough";
  site.CancelAll();
  for (const std::uint64_t id : {small, large, medium}) site.Await(id);
  site.ExpectIdle();
}

TEST_F(Mig, ATaskOfSeveralGpusIsRefusedWhereOnlyOneIsWhole) {
  const Ran refused = site.Carma({"submit", "--gpus", "2", "--", "/bin/true"});
  EXPECT_EQ(refused.code, 1) << refused.Text();
  EXPECT_NE(refused.err, "");
}

TEST_F(Mig, AnXidOfOneInstanceIsNotItsNeighbours) {
  const auto id = site.Train({"--gpu-mem", "15G"},
                             {.memory_mib = 15'000, .solo_s = 100, .more = {"--fault-at", "0.1"}});
  const api::TaskView failed = site.Await(id);
  EXPECT_EQ(failed.state, "failed");
  EXPECT_THAT(site.Output(id), HasSubstr("illegal memory access"));
  for (const api::GpuView& gpu : site.Gpus()) EXPECT_EQ(gpu.state, "idle") << gpu.index;
}

TEST_F(Mig, ALostGpuTakesItsInstancesAlongAndTheirTasksStartElsewhere) {
  // Occupies the whole GPU first, so that the next task goes to an instance.
  const auto large = site.Train({"--gpu-mem", "30G"}, {.memory_mib = 30'000, .solo_s = kLongTask});
  ASSERT_EQ(site.AwaitState(large, "running").gpu_indices.at(0), 2);
  ASSERT_TRUE(Eventually([&] { return Gpu(2).used_mib >= 30'000; }));
  Gated gated(site, "gated");
  const std::uint64_t id = gated.Submit(site, "exit 0", {"--gpu-mem", "4G"});
  ASSERT_EQ(gated.Hear(), "1");
  EXPECT_NE(site.AwaitState(id, "running").gpu_indices.at(0), 2);
  ASSERT_TRUE(site.SimGpu({"fault", "--kind", "lost", "--gpu", "0"}).Ok());
  ASSERT_EQ(gated.Hear(), "2");
  EXPECT_EQ(site.AwaitState(id, "running").gpu_indices.at(0), 2);
  EXPECT_EQ(Gpu(0).state, "down");
  EXPECT_EQ(Gpu(1).state, "down");
  gated.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
  site.SimGpu({"clear"});
}

TEST(MigGpuHangsAtStart, ItsInstancesAndLaterGpusKeepTheirNumbers) {
  Site site({.shape = "A100-40GB:mig=3g.20gb+1g.5gb,A100-40GB",
             .settings = {{"monitor.probe_timeout", "\"300ms\""}}});
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t id = gated.Submit(site, "exit 3", {"--gpu", "2", "--gpu-mem", "4G"});
  ASSERT_EQ(gated.Hear(), "1");
  site.Stop(SIGKILL);
  ASSERT_TRUE(site.SimGpu({"fault", "--kind", "hang", "--gpu", "0"}).Ok());
  site.Start();
  EXPECT_EQ(site.AwaitState(id, "running").gpu_indices, std::vector<std::int64_t>{2});
  const auto gpus_are = [&](const Words& states) {
    Words found;
    for (const api::GpuView& gpu : site.Gpus()) found.push_back(gpu.state);
    return found == states;
  };
  // All GPUs are down until the first readings arrive.
  EXPECT_TRUE(Eventually([&] {
    return gpus_are({"down", "down", "mix"});
  })) << site.Carma({"gpus"}).out;
  EXPECT_EQ(site.Gpus()[1].mig_profile, "1g.5gb");
  EXPECT_THAT(site.Gpus()[1].trouble, HasSubstr("not answered"));
  gated.Open();
  EXPECT_EQ(site.Await(id).exit_code, 3);
  ASSERT_TRUE(site.SimGpu({"clear"}).Ok());
  EXPECT_TRUE(Eventually([&] {
    return gpus_are({"idle", "idle", "idle"});
  })) << site.Carma({"gpus"}).out;
}

}  // namespace
}  // namespace carma::system_test

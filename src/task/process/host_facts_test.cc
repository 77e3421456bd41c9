#include "task/process/host_facts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace carma::task {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(HostFacts, AreReadFromTheKernelsFiles) {
  const std::string root = ::testing::TempDir() + "/host-facts";
  Write(root + "/proc/self/status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n");
  Write(root + "/proc/meminfo", "MemTotal:       67108864 kB\nMemFree:  1 kB\n");
  for (const int cpu : {0, 1, 2, 3}) {
    Write(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
              "/topology/thread_siblings_list",
          cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  }
  Write(root + "/group/memory.max", "8589934592\n");
  EXPECT_EQ(ReadHostFacts(root, ""), (HostFacts{{0, 2, 1, 3}, 65'536}));
  EXPECT_EQ(ReadHostFacts(root, root + "/group").memory_mib, 8'192);
  Write(root + "/group/memory.max", "max\n");
  EXPECT_EQ(ReadHostFacts(root, root + "/group").memory_mib, 65'536);
  EXPECT_EQ(ReadHostFacts(root + "/nowhere", ""), HostFacts{});
}

TEST(HostFacts, ReadsThisMachine) {
  const HostFacts facts = ReadHostFacts("", "");
  EXPECT_GE(facts.cpus.size(), 1U);
  EXPECT_GT(facts.memory_mib, 0);
}

TEST(ForTasks, LeavesTheSystemAReserveUnlessConfigured) {
  const HostFacts small{{0, 1}, 8'000};
  EXPECT_EQ(ForTasks(small, {}, {}), (core::HostInfo{2, 7'200, {0, 1}}));
  HostFacts large{{}, 1'000'000};
  for (int cpu = 0; cpu < 64; ++cpu) large.cpus.push_back(cpu);
  const core::HostInfo host = ForTasks(large, {}, {});
  EXPECT_EQ(host.cpus, 63);
  EXPECT_EQ(host.cores.back(), 62);
  EXPECT_EQ(host.memory_mib, 1'000'000 - 16'384);
  EXPECT_EQ(ForTasks(small, 1, 100), (core::HostInfo{1, 100, {0}}));
  EXPECT_EQ(ForTasks(small, 4, 0), (core::HostInfo{4, 0, {0, 1}}));  // more than the machine has
  EXPECT_EQ(ForTasks(small, 0, {}).cpus, 0);
}

}  // namespace
}  // namespace carma::task

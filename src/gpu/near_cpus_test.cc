#include "gpu/near_cpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace carma::gpu {
namespace {

TEST(NearCpus, AreReadFromThePciDevice) {
  const std::string root = ::testing::TempDir() + "/near-cpus";
  const std::string device = root + "/sys/bus/pci/devices/0000:0f:00.0";
  std::filesystem::create_directories(device);
  std::ofstream(device + "/numa_node") << "1\n";
  std::ofstream(device + "/local_cpulist") << "2-3,6\n";
  EXPECT_EQ(NearCpus(root, "00000000:0F:00.0"), (std::vector<int>{2, 3, 6}));
  EXPECT_EQ(NearCpus(root, "00000000:1F:00.0"), std::vector<int>{});
  EXPECT_EQ(NearCpus(root, "../../etc:00"), std::vector<int>{});
  EXPECT_EQ(NearCpus(root, ""), std::vector<int>{});
  std::ofstream(device + "/numa_node") << "-1\n";
  EXPECT_EQ(NearCpus(root, "00000000:0F:00.0"), std::vector<int>{});
}

TEST(NearCpus, SimulatedGpusGetTheCoresOfTheirSocket) {
  const std::vector<int> cpus{0, 2, 1, 3};
  EXPECT_EQ(NearCpusSimulated(cpus, 0, 4), (std::vector<int>{0, 1}));
  EXPECT_EQ(NearCpusSimulated(cpus, 3, 4), (std::vector<int>{2, 3}));
  EXPECT_EQ(NearCpusSimulated(cpus, 0, 1), cpus);
  EXPECT_EQ(NearCpusSimulated({5}, 1, 2), std::vector<int>{5});
}

}  // namespace
}  // namespace carma::gpu

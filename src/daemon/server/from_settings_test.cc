#include "daemon/server/from_settings.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::daemon {
namespace {

TEST(GpuInfosOf, HaveTheSpeedsOfTheirTypes) {
  config::Settings settings;
  settings.simgpu_state = "/simulated";
  const std::vector<gpu::DeviceInfo> devices{
      {.uuid = "GPU-0", .name = "NVIDIA H100 80GB HBM3", .total_mib = 81'559},
      {.uuid = "GPU-1", .name = "Tesla V100-SXM2-16GB", .total_mib = 16'384},
      {.uuid = "GPU-2", .name = "Homemade", .total_mib = 1'000}};
  const auto speed_of = [&](std::size_t gpu) {
    return GpuInfosOf(settings, devices, {}).at(gpu).speed;
  };
  EXPECT_DOUBLE_EQ(speed_of(0), 2.61);
  EXPECT_DOUBLE_EQ(speed_of(1), 0.48);
  EXPECT_DOUBLE_EQ(speed_of(2), 0) << "its speed is unknown";
  settings.gpu_speeds = {{"homemade", 0.1}};
  EXPECT_DOUBLE_EQ(speed_of(2), 0.1);
}

}  // namespace
}  // namespace carma::daemon

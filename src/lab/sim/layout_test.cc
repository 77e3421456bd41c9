#include "lab/sim/layout.h"

#include <gtest/gtest.h>

namespace carma::sim {
namespace {

TEST(Layout, NumbersGpusThroughAllServers) {
  const Cluster cluster = *ParseCluster("2 * 2xA100-40GB + 4xH100-80GB");
  const Layout layout(cluster, *FindMigProfile(1), false);
  ASSERT_EQ(layout.servers().size(), 3u);
  EXPECT_EQ(layout.gpu_count(), 8u);
  EXPECT_EQ(layout.servers()[0].kind, layout.servers()[1].kind);
  EXPECT_NE(layout.servers()[0].kind, layout.servers()[2].kind);
  EXPECT_EQ(layout.servers()[2].first_gpu, 4u);
  EXPECT_EQ(layout.ServerOf(3), 1u);
  EXPECT_EQ(layout.ServerOf(4), 2u);
  EXPECT_EQ(layout.most_gpus(), 4u);
  EXPECT_EQ(layout.fastest(), layout.TypeOf(7).relative_speed);
  EXPECT_EQ(layout.largest_mib(), layout.UsableMib(7));
  EXPECT_EQ(layout.InfosOf(1)[1].uuid, "GPU-3");
  // The slower of the two GPUs sets the pace.
  const std::uint32_t both[] = {0, 7};
  EXPECT_DOUBLE_EQ(layout.AloneS(both, 100), 100 / layout.TypeOf(0).relative_speed);
}

TEST(Layout, InstancesOfACardCountAsGpus) {
  const Cluster cluster = *ParseCluster("2xA100-40GB");
  const Layout layout(cluster, *FindMigProfile(7), true);
  EXPECT_EQ(layout.gpu_count(), 14u);
  EXPECT_EQ(layout.cards().size(), 2u);
  EXPECT_EQ(layout.CardOf(6), 0u);
  EXPECT_EQ(layout.CardOf(7), 1u);
  EXPECT_EQ(layout.FirstOnCard(1), 7u);
  EXPECT_TRUE(layout.InfosOf(0)[0].mig);
  EXPECT_LT(layout.UsableMib(0), 6'000);
}

}  // namespace
}  // namespace carma::sim

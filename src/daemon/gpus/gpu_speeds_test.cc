#include "daemon/gpus/gpu_speeds.h"

#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

TEST(SpeedOfModel, UsesTheBuiltInTables) {
  struct Case {
    const char* model;
    double speed;
  };
  for (const Case& each : {Case{"NVIDIA A100-SXM4-40GB", 1},
                           {"NVIDIA A100-PCIE-40GB", 1},
                           {"NVIDIA A100-SXM4-80GB", 1.15},
                           {"NVIDIA A100 80GB PCIe", 1.15},
                           {"NVIDIA A100-SXM4-40GB MIG 3g.20gb", 1},
                           {"NVIDIA H100 80GB HBM3", 2.61},
                           {"NVIDIA H200", 3.13},
                           {"Tesla V100-SXM2-16GB", 0.48},
                           {"Tesla T4", 0.21},
                           {"NVIDIA GeForce RTX 3090", 0.37},
                           {"NVIDIA RTX A6000", 0.50},
                           {"NVIDIA RTX 6000 Ada Generation", 0.85},
                           {"NVIDIA L4", 0.27},
                           {"NVIDIA L40", 0.57},
                           {"NVIDIA L40S", 0.80},
                           {"NVIDIA GeForce RTX 2080 Ti", 0.26},
                           {"NVIDIA A40", 0.46},
                           {"Tesla P100-PCIE-16GB", 0.18},
                           {"Quadro P400", 0},
                           {"", 0}}) {
    EXPECT_DOUBLE_EQ(SpeedOfModel(each.model, {}), each.speed) << each.model;
  }
}

TEST(SpeedOfModel, PrefersConfiguredSpeeds) {
  const std::vector<core::TypeSpeed> configured{{"a100", 0.9}, {"p400", 0.02}};
  EXPECT_DOUBLE_EQ(SpeedOfModel("NVIDIA A100-SXM4-40GB", configured), 0.9);
  EXPECT_DOUBLE_EQ(SpeedOfModel("Quadro P400", configured), 0.02);
  EXPECT_DOUBLE_EQ(SpeedOfModel("NVIDIA H200", configured), 3.13);
}

}  // namespace
}  // namespace carma::daemon

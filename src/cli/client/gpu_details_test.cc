#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client/gpu_text.h"
#include "cli/client/sample_views_test.h"

namespace carma::cli {
namespace {

class GpuDetailsTest : public InUtc {};

api::GpuView SomeGpu() {
  return {.index = 0,
          .uuid = "GPU-1",
          .name = "H100",
          .state = "drng",
          .trouble = "Xid 79",
          .total_mib = 81'920,
          .reserved_mib = 512,
          .used_mib = 20'480,
          .claimed_mib = 30'720,
          .promised_mib = 24'576,
          .free_mib = 15'000,
          .sm_active = 0.634,
          .sm_active_now = 0.71,
          .sample_age_ms = 840,
          .foreign_processes = 2,
          .tasks = {{.id = 42,
                     .user = "bob",
                     .name = "resnet50",
                     .claim_mib = 12'288,
                     .promised_mib = 10'240,
                     .plateau = true,
                     .observed_mib = 9'318,
                     .peak_mib = 10'000,
                     .sharing = "mps",
                     .sm_active = 0.4,
                     .sm_active_by = "kernel-time"},
                    {.id = 43, .user = "ann", .name = "bert", .idle_since_ms = kNow - 600'000}},
          .foreign = {{.pid = 4711, .user = "cleo", .command = "python x.py", .used_mib = 600},
                      {.pid = 4712}},
          .unattributed_mib = 3'072,
          .alerts = {"3.0G is used by no process"},
          .drained_by_rule = true,
          .sm_active_p95 = 0.9,
          .metrics = {{.name = "sm_occupancy", .value = 0.314, .source = "gpm"},
                      {.name = "power_w", .value = 251.7, .source = "nvml"},
                      {.name = "pcie_tx_bytes_s", .value = 1.5e9, .source = "gpm"},
                      {.name = "energy_j", .value = 123'456, .source = "nvml"},
                      {.name = "sm_clock_mhz", .value = 1'980, .source = "nvml"},
                      {.name = "utilization", .value = 1, .source = "nvml"}},
          .activity_source = "gpm",
          .mig_profile = "3g.40gb",
          .mig_parent = "GPU-0"};
}

TEST_F(GpuDetailsTest, GpuDetailsNameTheSourceOfEverything) {
  EXPECT_EQ(GpuDetails(SomeGpu(), kNow, {.width = 80}), R"(
GPU 0 H100 MIG 3g.40gb: drng
  UUID          GPU-1
  MIG instance  3g.40gb of GPU-0
  Closed        by rule: Xid 79
  Alert         3.0G is used by no process
  Memory        20.0G of 80.0G in use, 24.0G promised of 30.0G claimed, closed to new tasks
                512M reserved by the driver
                3.0G used by unlisted processes
  SM activity   63% mean over the window, 90% p95, - EWMA, 71% now (gpm)
  From gpm      sm_occupancy 31%, pcie_tx_bytes_s 1.4 GiB/s
  From nvml     power_w 252 W, energy_j 123 kJ, sm_clock_mhz 1980 MHz,
                utilization 100%
  Read          0.8 s ago
  Tasks
    TASK  USER  NAME      CLAIM  PROMISED  USED  PEAK  SHARING  SM
      42  bob   resnet50  12.0G     10.0G  9.1G  9.8G  mps      40% kernel-time
      43  ann   bert          -         -    0M    0M  -        -
    task 43 has not used its GPUs for 10:00
  Processes that do not belong to a task
     PID  USER  USED  COMMAND
    4711  cleo  600M  python x.py
    4712  ?        ?  hidden
)" + 1);
}

TEST_F(GpuDetailsTest, ShowTheSpeedOfASlowType) {
  api::GpuView gpu = SomeGpu();
  EXPECT_THAT(GpuDetails(gpu, kNow, {}), ::testing::Not(::testing::HasSubstr("fastest")));
  gpu.pace = 0.184;
  EXPECT_THAT(GpuDetails(gpu, kNow, {}),
              ::testing::HasSubstr("0.18 times the speed of the server's fastest GPU"));
}

TEST_F(GpuDetailsTest, ShowTheRuleUsedWithoutSmActivity) {
  const api::GpuView gpu{.index = 3,
                         .uuid = "GPU-3",
                         .name = "T4",
                         .state = "idle",
                         .activity_source = "none",
                         .activity_rule = "one task at a time"};
  const std::string text = GpuDetails(gpu, kNow, {});
  EXPECT_THAT(text, ::testing::HasSubstr("  SM activity   not reported\n"
                                         "  Rule          one task at a time\n"));
  EXPECT_EQ(text.find("Tasks"), std::string::npos);
  EXPECT_EQ(text.find("unlisted processes"), std::string::npos) << "the amount is unknown";
}

}  // namespace
}  // namespace carma::cli

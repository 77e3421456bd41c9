#include "cli/client/gpu_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client/sample_views_test.h"

namespace carma::cli {
namespace {

class GpuTextTest : public InUtc {};

TEST_F(GpuTextTest, ADryRunMergesEqualTasks) {
  const CheckedTask now{.name = "true", .gpus = 4, .now = true};
  const CheckedTask other{.name = "other", .gpus = 0, .now = true};
  EXPECT_EQ(CheckText({now, now, now, other, other, now}, 8),
            "Nothing was submitted; 8 tasks are valid:\n"
            "  true x3: 4 GPUs, no memory estimate: the first could start now, and the others as "
            "soon as there is room\n"
            "  other x2: no GPU: each could start now on its own\n"
            "  true: 4 GPUs, no memory estimate: could start now if the tasks above were not ahead "
            "of it\n"
            "  and 2 more\n");
  EXPECT_EQ(CheckText({other}, 1),
            "Nothing was submitted; the task is valid:\n  other: no GPU: could start now\n");
}

TEST_F(GpuTextTest, GpuTableShowsMeasuredAndPromised) {
  const std::vector<api::GpuView> gpus = {
      {.index = 0,
       .name = "A100-SXM4-40GB",
       .state = "mix",
       .total_mib = 40'960,
       .used_mib = 20'480,
       .claimed_mib = 30'720,
       .promised_mib = 24'576,
       .free_mib = 15'000,
       .sm_active = 0.634,
       .power_w = 251.7,
       .temperature_c = 61,
       .foreign_processes = 1,
       .tasks = {{.id = 42, .user = "bob"}, {.id = 43, .user = "ann"}}},
      {.index = 1, .name = "A100-SXM4-40GB", .state = "down", .trouble = "no sample for 12 s"},
      {.index = 2, .name = "A100-SXM4-40GB", .state = "alloc", .free_mib = 40'550},
  };
  EXPECT_EQ(
      GpuTable(gpus, {}),
      "GPU  NAME            STATE   USED/TOTAL  PROMISED   FREE   SM  POWER  TEMP  TASKS\n"
      "  0  A100-SXM4-40GB  mix    20.0G/40.0G     24.0G  14.6G  63%   252W   61C  42 bob, 43 "
      "ann, 1 foreign (0M)\n"
      "  1  A100-SXM4-40GB  down         0M/0M        0M      -    -      -     -  (no sample "
      "for 12 s)\n"
      "  2  A100-SXM4-40GB  alloc        0M/0M        0M      -    -      -     -  -\n");
}

TEST_F(GpuTextTest, StatusDoesNotSayThatRootsDaemonServesEverybody) {
  EXPECT_THAT(StatusText({.version = "1.2", .uid = 0, .pid = 7}),
              ::testing::StartsWith("carmad 1.2, process 7, run by root\n"));
  EXPECT_THAT(StatusText({.version = "1.2", .uid = 1000, .pid = 7}),
              ::testing::StartsWith("carmad 1.2, process 7, serves user 1000\n"));
}

TEST_F(GpuTextTest, ShowsACommonGpuNameOnce) {
  std::vector<api::GpuView> gpus = {
      {.index = 0, .name = "NVIDIA A100-SXM4-40GB", .state = "idle", .total_mib = 40'960},
      {.index = 1, .name = "NVIDIA A100-SXM4-40GB", .state = "idle", .total_mib = 40'960}};
  EXPECT_EQ(GpuTable(gpus, {.width = 80}),
            "2 x A100-SXM4-40GB\n"
            "GPU  STATE  USED/TOTAL  PROMISED  FREE  SM  POWER  TEMP  TASKS\n"
            "  0  idle     0M/40.0G        0M    0M   -      -     -  -\n"
            "  1  idle     0M/40.0G        0M    0M   -      -     -  -\n");
  gpus[1].name = "NVIDIA L4";
  EXPECT_THAT(GpuTable(gpus, {.width = 80}), ::testing::HasSubstr("  1  L4 "));
  EXPECT_THAT(GpuTable(gpus, {.width = 120}), ::testing::HasSubstr("MEMORY"));
}

TEST_F(GpuTextTest, GpuTableMarksInstancesClosedGpusAndIdleHolders) {
  const std::vector<api::GpuView> gpus = {
      {.index = 0,
       .name = "A100",
       .state = "drng",
       .trouble = "Xid 79",
       .tasks = {{.id = 42, .user = "bob", .idle_since_ms = kNow}},
       .alerts = {"3.0G is used by no process"},
       .drained_by_rule = true},
      {.index = 1, .name = "A100", .state = "drain", .trouble = "drained by ann: new fan"},
      {.index = 2, .name = "A100", .state = "idle", .mig_profile = "3g.20gb"},
      {.index = 3, .name = "A100 MIG 1g.5gb", .state = "idle", .mig_profile = "1g.5gb"}};
  const std::string table = GpuTable(gpus, {});
  EXPECT_THAT(table, ::testing::HasSubstr("42 bob (idle)  (by rule: Xid 79)  ! 3.0G is"));
  EXPECT_THAT(table, ::testing::HasSubstr("  (drained by ann: new fan)\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("A100 MIG 3g.20gb  idle"));
  EXPECT_THAT(table, ::testing::HasSubstr("A100 MIG 1g.5gb   idle"));
}

}  // namespace
}  // namespace carma::cli

// Sample views in UTC, for tests of text output.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "api/task_view.h"

namespace carma::cli {

inline constexpr std::int64_t kNow = 1'772'370'000'000;  // 2026-03-01 13:00:00 UTC

class InUtc : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

// A waiting task, a running task, a task that ran out of memory, and a task that succeeded.
inline std::vector<api::TaskView> SomeTasks() {
  return {
      {.id = 7,
       .name = "gpt2-small",
       .user = "ann",
       .state = "queued",
       .reason = "GpuMemory",
       .gpus = 2,
       .predicted_mib = 30'000,
       .queue = "main"},
      {.id = 42,
       .name = "resnet50",
       .user = "bob",
       .state = "running",
       .gpus = 1,
       .gpu_indices = {3},
       .claim_mib = 12'288,
       .observed_mib = 9'318,
       .queue = "main",
       .launched_ms = kNow - 3'725'000},
      {.id = 43,
       .name = "bert",
       .user = "cleo",
       .state = "out_of_memory",
       .reason = "OutOfMemory",
       .gpus = 1,
       .gpu_indices = {0},
       .peak_mib = 40'000,
       .launched_ms = kNow - 60'000,
       .ended_ms = kNow - 1'000},
      {.id = 101,
       .name = "a name with a \x1b[31m trick, and quite long",
       .user = "dora",
       .state = "succeeded",
       .gpus = 1,
       .gpu_indices = {1, 2},
       .peak_mib = 512,
       .launched_ms = kNow - 90'061'000,
       .ended_ms = kNow},
  };
}

}  // namespace carma::cli

#include "core/policy/gpu_fingerprint.h"

#include <gtest/gtest.h>

#include <functional>

namespace carma::core {
namespace {

TEST(GpuFingerprint, ShowsChangesThatMayLetATaskStart) {
  const PolicyConfig config;
  GpuView gpu{.total_mib = 40'000, .free_mib = 10'000, .sm_active = 0.9, .settled = false};
  gpu.exclusive_task = true;
  gpu.delivered = 0.9;
  const GpuFingerprint before = FingerprintOf(config, gpu, 7);
  const struct {
    const char* what;
    std::function<void(GpuView&)> change;
    bool opens;
  } cases[] = {
      {"nothing", [](GpuView&) {}, false},
      {"memory", [](GpuView& g) { ++g.free_mib; }, true},
      {"less memory", [](GpuView& g) { --g.free_mib; }, false},
      {"it has settled", [](GpuView& g) { g.settled = true; }, true},
      {"quieter, but not below the cap", [](GpuView& g) { g.sm_active = 0.85; }, false},
      {"below the cap", [](GpuView& g) { g.sm_active = 0.8; }, true},
      {"the exclusive task idles", [](GpuView& g) { g.exclusive_task = false; }, true},
      {"little used", [](GpuView& g) { g.delivered = 0.3; }, true},
      {"closed", [](GpuView& g) { g.drained = true; }, false},
      {"kept for a task", [](GpuView& g) { g.reserved_for = TaskId{3}; }, true},
  };
  for (const auto& each : cases) {
    GpuView now = gpu;
    each.change(now);
    EXPECT_EQ(!OpensNothing(before, FingerprintOf(config, now, 7)), each.opens) << each.what;
  }
  EXPECT_FALSE(OpensNothing(before, FingerprintOf(config, gpu, 8)));  // a different set of tasks
}

}  // namespace
}  // namespace carma::core

#include "core/policy/gpu_fingerprint.h"

namespace carma::core {

double UseOf(const GpuView& gpu) {
  return gpu.settled && gpu.sm_active ? *gpu.sm_active : gpu.compute * gpu.delivered;
}

GpuFingerprint FingerprintOf(const PolicyConfig& config, const GpuView& gpu, std::uint64_t crowd) {
  const double activity = gpu.sm_active.value_or(gpu.utilization.value_or(1));
  const std::optional<double>& cap = SmCapOn(config, gpu.mig);
  return {.takes = gpu.healthy && !gpu.drained && !gpu.exclusive_task,
          .settled = gpu.settled,
          .quiet = !cap || activity <= *cap,
          .little_used = UseOf(gpu) < kTurnsBelow,
          .free_mib = gpu.free_mib,
          .reserved_for = gpu.reserved_for,
          .crowd = crowd};
}

bool OpensNothing(const GpuFingerprint& before, const GpuFingerprint& now) {
  return now.crowd == before.crowd && now.takes <= before.takes && now.settled <= before.settled &&
         now.quiet <= before.quiet && now.little_used <= before.little_used &&
         now.free_mib <= before.free_mib && now.reserved_for == before.reserved_for;
}

}  // namespace carma::core

#include "daemon/late_probe.h"

#include <string>
#include <utility>

#include "base/log.h"

namespace carma::daemon {

using base::Result;

gpu::ReadResult<std::vector<gpu::DeviceInfo>> LateProbe::Devices() {
  if (!loaded_.probe) {
    Result<gpu::LoadedProbe> loaded = gpu::LoadProbe(options_);
    if (!loaded) return std::unexpected(loaded.error());
    loaded_ = std::move(*loaded);
    if (!kept_.empty()) loaded_.probe->Keep(std::move(kept_));
  }
  gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices = loaded_.probe->Devices();
  const std::string trouble = loaded_.dcgm_trouble ? loaded_.dcgm_trouble() : "";
  if (devices && !trouble.empty()) base::LogWarn("no_sm_activity", {{"why", trouble}});
  return devices;
}

gpu::ReadResult<gpu::Reading> LateProbe::Read(std::size_t device, base::Time now) {
  if (!loaded_.probe)
    return base::Fail(base::ErrorCode::kUnavailable, "the driver's library is not loaded");
  return loaded_.probe->Read(device, now);
}

void LateProbe::Keep(std::vector<gpu::DeviceInfo> devices) {
  if (loaded_.probe) return loaded_.probe->Keep(std::move(devices));
  kept_ = std::move(devices);
}

}  // namespace carma::daemon

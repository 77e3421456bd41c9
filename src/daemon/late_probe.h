// The GPU driver as the daemon asks it.
#pragma once

#include <vector>

#include "gpu/load_probe.h"
#include "gpu/probe.h"

namespace carma::daemon {

// A probe whose GPUs keep their numbers.
class NumberedProbe : public gpu::Probe {
 public:
  // From here on GPUs have the numbers of this list, whatever the driver lists.
  virtual void Keep(std::vector<gpu::DeviceInfo> devices) = 0;
};

// Loads the driver's library when it is first asked for devices, and tries again each time until
// that succeeds: a driver may be installed while the daemon runs.
class LateProbe : public NumberedProbe {
 public:
  explicit LateProbe(gpu::ProbeOptions options) : options_(std::move(options)) {}
  gpu::ReadResult<std::vector<gpu::DeviceInfo>> Devices() override;
  gpu::ReadResult<gpu::Reading> Read(std::size_t device, base::Time now) override;
  void Keep(std::vector<gpu::DeviceInfo> devices) override;

 private:
  gpu::ProbeOptions options_;
  gpu::LoadedProbe loaded_;
  std::vector<gpu::DeviceInfo> kept_;  // until there is a library
};

}  // namespace carma::daemon

// The daemon's access to the GPU driver.
#pragma once

#include <memory>
#include <vector>

#include "gpu/probe.h"
#include "gpu/reader/load_probe.h"

namespace carma::daemon {

// A probe whose GPUs keep their numbers.
class NumberedProbe : public gpu::Probe {
 public:
  // From now on GPUs keep the numbers of this list, whatever the driver lists.
  virtual void Keep(std::vector<gpu::DeviceInfo> devices) = 0;
};

// Logs, each time devices are listed, why no source measures SM activity.
std::shared_ptr<NumberedProbe> MakeNumberedProbe(const gpu::ProbeOptions& options);

}  // namespace carma::daemon

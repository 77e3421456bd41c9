// The daemon's access to the GPU driver, in which GPUs keep their numbers.
#pragma once

#include <memory>
#include <vector>

#include "gpu/probe.h"
#include "gpu/reader/load_probe.h"

namespace carma::daemon {

class NumberedProbe : public gpu::Probe {
 public:
  // From now on GPUs keep the numbers that they have in this list, whatever the driver lists.
  virtual void Keep(std::vector<gpu::DeviceInfo> devices) = 0;
};

// If no source measures SM activity, the probe logs the reasons each time devices are listed.
std::shared_ptr<NumberedProbe> MakeNumberedProbe(const gpu::ProbeOptions& options);

}  // namespace carma::daemon

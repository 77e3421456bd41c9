// The probe that the daemon and `carma doctor` use, so that both see the same.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/probe.h"
#include "gpu/steady_probe.h"

namespace carma::gpu {

// Who counts the activity of a GPU's units.
enum class ActivitySource {
  kAuto,  // the driver where it can (GPM), else DCGM
  kNvml,  // the driver or nobody: `dcgmi` is never started
  kDcgm,  // DCGM for every GPU
};

struct ProbeOptions {
  std::string reader;  // path of carma-reader, which asks NVML
  std::string nvml_library;
  ActivitySource source = ActivitySource::kAuto;
  base::Duration period{1'000};     // between two readings of a GPU, in real time
  base::Duration patience{10'000};  // with the driver's answer about one GPU, in real time
  // Devices() may wait so long for DCGM's first counts, in real time.
  base::Duration first_answer{4'000};
};

struct LoadedProbe {
  std::unique_ptr<SteadyProbe> probe;
  // Why DCGM gives nothing, in one line; empty: it serves or is not needed. To be asked after
  // Devices(), by the thread that reads; empty function: this source never asks DCGM.
  std::function<std::string()> dcgm_trouble;
};

// Asks nothing yet.
LoadedProbe LoadProbe(const ProbeOptions& options);

}  // namespace carma::gpu

// Loads the probe for the daemon and `carma doctor` so that both read the same data.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/steady_probe.h"

namespace carma::gpu {

// Source of the activity counters.
enum class ActivitySource {
  kAuto,  // the driver if it supports GPM, else DCGM
  kNvml,  // only the driver: `dcgmi` is never started
  kDcgm,  // DCGM for every GPU
};

struct ProbeOptions {
  std::string reader;  // path of carma-reader, which calls NVML
  std::string nvml_library;
  ActivitySource source = ActivitySource::kAuto;
  base::Duration period{1'000};     // real time between two readings of a GPU
  base::Duration patience{10'000};  // real time to wait for the driver to respond about one GPU
  // How long Devices() may wait for the first rows of `dcgmi`, in wall-clock time.
  base::Duration first_answer{4'000};
};

struct LoadedProbe {
  std::unique_ptr<SteadyProbe> probe;
  // Returns one line that says why DCGM provides no data; empty if DCGM works or is not needed.
  // Call only after Devices(), on the reading thread. Null if DCGM is never used.
  std::function<std::string()> dcgm_trouble;
};

// Loads the probe without calling the driver.
LoadedProbe LoadProbe(const ProbeOptions& options);

}  // namespace carma::gpu

// A scripted NVML for the tests of the probe: what the driver would answer, set through one struct
// that the library exports as `carma_fake_nvml`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/nvml_abi.h"

namespace carma::gpu {

struct FakeNvmlGpu {
  std::string uuid;
  std::string bus_id;
  nvml::MemoryV2 memory{};
  std::vector<nvml::ProcessInfo> compute, graphics, mps;
  double sm_percent = 0;
  bool gpm = true;
  std::uint32_t utilization = 0;
  std::uint32_t power_mw = 0;
  std::uint64_t energy_mj = 0;
  std::uint32_t temperature = 40;
  // Processes that appear between the question for their number and the list.
  int late_processes = 0;
};

struct FakeNvml {
  std::vector<FakeNvmlGpu> gpus;
  std::map<std::string, nvml::Return> errors;  // by function name; absent: success
  int init_calls = 0;
  int samples = 0;  // GPM samples allocated and not freed
  bool initialised = false;
};

inline constexpr const char* kFakeNvmlSymbol = "carma_fake_nvml";

}  // namespace carma::gpu

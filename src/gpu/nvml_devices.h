// Lists the GPUs, and the instances of divided ones (MIG).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_library.h"
#include "gpu/probe.h"

namespace carma::gpu {

// Options for making a list. GPUs have the numbers of NVML's own list.
struct NvmlListing {
  std::set<std::uint32_t> leave_out;          // listed with a trouble and not queried
  std::function<void(std::uint32_t)> asking;  // called before the first query of each other one
};

// Where the NVLinks of a GPU lead.
struct NvmlLinks {
  std::vector<std::string> pcis;  // addresses of other GPUs
  bool to_switch = false;         // connected with all others at a switch
};

struct NvmlDevice {
  std::uint32_t number = 0;       // NVML's, of the whole GPU
  DeviceInfo info;                // without reports_sm_activity
  nvml::Device handle = nullptr;  // of the GPU or the instance; null: none
  nvml::Device board = nullptr;   // of the whole GPU
  NvmlLinks links;                // of a whole GPU
  bool leads = true;              // the first readable one of its board
  std::uint32_t GpuInstance() const {
    return info.mig ? static_cast<std::uint32_t>(info.mig->gpu_instance) : nvml::kNoValue32;
  }
  std::uint32_t ComputeInstance() const {
    return info.mig ? static_cast<std::uint32_t>(info.mig->compute_instance) : nvml::kNoValue32;
  }
};

// In PCI order; one with unknown address stays after its predecessor. One that cannot be described
// is listed with its trouble. Errors: the GPUs cannot be counted, the driver is gone, or none of
// the queried ones can be described (with the first one's reason).
ReadResult<std::vector<NvmlDevice>> ListNvmlDevices(NvmlCalls& calls,
                                                    const NvmlListing& listing = {});

// Gets new handles after the driver was reloaded, which makes the old ones invalid. Errors: as
// above.
Result<Unit> FindNvmlDevicesAgain(NvmlCalls& calls, std::span<NvmlDevice* const> devices);

struct MemoryUse {
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;
};
// gpu: as ReadError::gpu. Errors: those of NvmlCalls::FailureOf(); kCorrupt: the driver reports no
// amount.
ReadResult<MemoryUse> AskMemory(NvmlCalls& calls, nvml::Device handle, const std::string& gpu);

// "3g.20gb", or "1c.3g.20gb" for a part of such an instance: its slices, and its memory in eighths
// of the GPU's, in whole GiB. board_mib 0: unknown; then the instance's own memory rounded up.
std::string MigProfileName(const nvml::DeviceAttributes& attributes, std::int64_t board_mib);

}  // namespace carma::gpu

// Which GPUs there are, and the instances of the divided ones (MIG).
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

// How a list is made. GPUs have the numbers of NVML's own list.
struct NvmlListing {
  std::set<std::uint32_t> leave_out;          // listed with a trouble, and nothing is asked of them
  std::function<void(std::uint32_t)> asking;  // called before the first question about each other
};

// Where the NVLinks of a GPU lead to.
struct NvmlLinks {
  std::vector<std::string> pcis;  // addresses of other GPUs
  bool to_switch = false;         // which connects it with all that are connected with one
};

struct NvmlDevice {
  std::uint32_t number = 0;       // NVML's, of the whole GPU
  DeviceInfo info;                // without reports_sm_activity
  nvml::Device handle = nullptr;  // of the GPU or the instance; null: cannot be asked
  nvml::Device board = nullptr;   // of the whole GPU
  NvmlLinks links;                // of a whole GPU
  bool leads = true;              // the first that can be read of those of one board
  std::uint32_t GpuInstance() const {
    return info.mig ? static_cast<std::uint32_t>(info.mig->gpu_instance) : nvml::kNoValue32;
  }
  std::uint32_t ComputeInstance() const {
    return info.mig ? static_cast<std::uint32_t>(info.mig->compute_instance) : nvml::kNoValue32;
  }
};

// In PCI order; one whose address is not told keeps its place behind the one before it. One that
// cannot be described is listed with its trouble. Errors: the GPUs cannot be counted, the driver
// went, or none of those that were asked can be described (with the first one's reason).
ReadResult<std::vector<NvmlDevice>> ListNvmlDevices(NvmlCalls& calls,
                                                    const NvmlListing& listing = {});

// After the driver was loaded anew: handles of its earlier life mean nothing. Errors: as above.
base::Result<base::Unit> FindNvmlDevicesAgain(NvmlCalls& calls,
                                              std::span<NvmlDevice* const> devices);

struct MemoryUse {
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;
};
// gpu: as ReadError::gpu. Errors: as NvmlCalls::FailureOf(); kCorrupt: the driver tells no amount.
ReadResult<MemoryUse> AskMemory(NvmlCalls& calls, nvml::Device handle, const std::string& gpu);

// "3g.20gb", or "1c.3g.20gb" for a part of such an instance: its slices, and its memory in eighths
// of the GPU's, in whole GiB. board_mib 0: not known; the instance's own memory rounded up.
std::string MigProfileName(const nvml::DeviceAttributes& attributes, std::int64_t board_mib);

}  // namespace carma::gpu

// Lists the GPUs and the instances of MIG GPUs.
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

// Options for listing devices. GPUs are numbered as in NVML's own list.
struct NvmlListing {
  std::set<std::uint32_t> leave_out;          // listed with a `trouble` and not queried
  std::function<void(std::uint32_t)> asking;  // called before the first query of each queried GPU
};

// The devices that a GPU's NVLinks lead to.
struct NvmlLinks {
  std::vector<std::string> pcis;  // addresses of other GPUs
  bool to_switch = false;         // connected to all other GPUs on an NVSwitch
};

struct NvmlDevice {
  std::uint32_t number = 0;       // NVML's index of the whole GPU
  DeviceInfo info;                // without reports_sm_activity
  nvml::Device handle = nullptr;  // the GPU's or the instance's; null: none
  nvml::Device board = nullptr;   // the whole GPU's handle
  NvmlLinks links;                // set only for a whole GPU
  bool leads = true;              // the first readable device of its board
  std::uint32_t GpuInstance() const {
    return info.mig ? static_cast<std::uint32_t>(info.mig->gpu_instance) : nvml::kNoValue32;
  }
  std::uint32_t ComputeInstance() const {
    return info.mig ? static_cast<std::uint32_t>(info.mig->compute_instance) : nvml::kNoValue32;
  }
};

// Lists devices in PCI order. A device with an unknown address follows its predecessor in the
// driver's list. A device that cannot be described is listed with its error. Fails if the GPUs
// cannot be counted or the driver is gone. Also fails, with the first error, if no queried GPU can
// be described.
ReadResult<std::vector<NvmlDevice>> ListNvmlDevices(NvmlCalls& calls,
                                                    const NvmlListing& listing = {});

// Gets new handles after a driver reload, which invalidates all earlier handles. Fails if NVML
// cannot look up UUIDs, the driver is gone, or every lookup fails (with the first lookup's error).
Result<Unit> FindNvmlDevicesAgain(NvmlCalls& calls, std::span<NvmlDevice* const> devices);

// Reads a device's total, reserved and used memory. gpu: as ReadError::gpu. Fails with an error
// from NvmlCalls::FailureOf(), or with kCorrupt if the driver does not report the amount of memory.
ReadResult<Unit> ReadNvmlMemory(NvmlCalls& calls, nvml::Device handle, const std::string& gpu,
                                Reading& reading);

// Whether the GPU is divided into instances; empty if the driver does not report it. Fails only if
// the GPU or the driver is lost.
ReadResult<std::optional<bool>> AskMig(NvmlCalls& calls, nvml::Device board,
                                       const std::string& uuid);

// The profile name of an instance ("3g.20gb") or of a part of it ("1c.3g.20gb"). The memory is in
// GiB, rounded up to a multiple of one eighth of the GPU's memory, or to a whole GiB if board_mib
// is 0 (unknown).
std::string MigProfileName(const nvml::DeviceAttributes& attributes, std::int64_t board_mib);

}  // namespace carma::gpu

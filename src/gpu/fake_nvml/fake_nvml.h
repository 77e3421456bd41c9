// A scripted NVML for tests of the probe. The library exports its answers as one struct,
// `carma_fake_nvml`, which the tests set.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/nvml_abi.h"

namespace carma::gpu {

// A MIG instance with its own memory, processes and counters.
struct FakeNvmlInstance {
  std::string uuid;
  std::uint32_t gpu_instance = 1;
  std::uint32_t compute_instance = 0;
  std::uint32_t profile = 9;
  std::uint32_t gpu_slices = 3, compute_slices = 3;
  nvml::MemoryV2 memory{};
  std::vector<nvml::ProcessInfo> compute;
  double sm_percent = 0;
  std::map<std::string, nvml::Return> errors;  // by function name, for this instance only
};

// A control group's memory limits on a GPU as set in the driver, in bytes.
struct FakeNvmlLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = nvml::kNoMemoryLimit;
  std::uint64_t used = 0;
};

struct FakeNvmlGpu {
  std::string uuid;
  std::string bus_id;
  nvml::MemoryV2 memory{};
  std::vector<nvml::ProcessInfo> compute, graphics, mps;
  double sm_percent = 0;
  bool gpm = true;
  // Additional supported GPM metrics by number, in NVML's units.
  std::map<std::uint32_t, double> gpm_metrics;
  std::uint32_t utilization = 0;
  std::uint32_t power_mw = 0;
  std::uint64_t energy_mj = 0;
  std::uint32_t temperature = 40;
  std::uint32_t sm_clock = 1'410, memory_clock = 1'593;
  std::uint64_t ecc_corrected = 0, ecc_uncorrected = 0;
  std::uint32_t remapped_corrected = 0, remapped_uncorrected = 0, remap_pending = 0,
                remap_failed = 0;
  std::uint32_t compute_mode = 0;
  std::uint32_t mig_mode = 0;
  std::uint32_t mig_slices = 7;
  std::optional<std::uint32_t> mig_pending;  // empty: no change pending
  std::vector<FakeNvmlInstance> instances;
  std::vector<nvml::ProcessUtilization> samples;  // returned if newer than requested
  std::map<std::string, nvml::Return> errors;     // by function name, for this GPU only
  std::uint32_t recovery_action = 0;
  std::uint32_t recovery_type = nvml::kTypeUnsignedInt;
  // Number of processes that start between the calls that count and list processes.
  int late_processes = 0;
  std::map<std::string, FakeNvmlLimit> memory_limits;  // by the group's path
  // What is at the other end of each NVLink: a PCI address, "switch", or "" for an unused link.
  std::vector<std::string> links;
};

struct FakeNvmlEvent {
  std::size_t gpu = 0;
  std::uint64_t type = nvml::kEventXidCritical;
  std::uint64_t data = 0;
  std::uint32_t gpu_instance = nvml::kNoValue32;
  std::uint32_t compute_instance = nvml::kNoValue32;
};

struct FakeNvml {
  std::vector<FakeNvmlGpu> gpus;
  std::deque<FakeNvmlEvent> events;            // delivered to the only event set
  nvml::Return gpm_lists = nvml::kSuccess;     // result of a request for several metrics
  std::map<std::string, int> calls;            // by function name, counted functions only
  std::map<std::string, nvml::Return> errors;  // by function name, for all GPUs; absent: success
  int init_calls = 0;
  int samples = 0;           // GPM samples allocated and not freed
  int event_sets = 0;        // created and not freed
  bool lost_in_set = false;  // the current set contains a lost GPU
  bool initialised = false;
  int users = 0;  // calls to nvmlInit not yet followed by nvmlShutdown
};

inline constexpr const char* kFakeNvmlSymbol = "carma_fake_nvml";
// Describes the GPUs that exist when the library is loaded: "gpu" is a healthy GPU, "gpu
// remap-failed" a broken GPU.
inline constexpr const char* kFakeNvmlVariable = "CARMA_FAKE_NVML";

inline FakeNvmlGpu UsualFakeGpu() {
  FakeNvmlGpu gpu;
  gpu.uuid = "GPU-a";
  gpu.bus_id = "00000000:07:00.0";
  gpu.memory = {.version = 0,
                .total = std::uint64_t{40} << 30,
                .reserved = 0,
                .free = std::uint64_t{40} << 30,
                .used = 0};
  gpu.sm_percent = 25;
  return gpu;
}

}  // namespace carma::gpu

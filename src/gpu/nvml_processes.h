// The processes on one GPU or instance, as NVML lists them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_devices.h"
#include "gpu/nvml_library.h"
#include "gpu/probe.h"

namespace carma::gpu {

// One per device: caches results, because /proc is slow compared with NVML.
class NvmlProcesses {
 public:
  // One entry per pid, without kernel_time. Errors: those of NvmlCalls::FailureOf(); kCorrupt: an
  // impossible number.
  ReadResult<std::vector<ProcessUse>> List(NvmlCalls& calls, const NvmlDevice& device);
  // Adds kernel_time to those of List(), only for a whole GPU: clients of MPS and instances have
  // none. busy: the GPU's own utilisation; if kernels ran but the driver names no process,
  // kernel_time is unknown. Errors: only a lost GPU or driver.
  ReadResult<Unit> AddKernelTime(NvmlCalls& calls, const NvmlDevice& device,
                                 std::optional<double> busy, std::vector<ProcessUse>& processes);
  // Fills in the control groups that have limits; only for a whole GPU. A process counts for the
  // group that it was in when it was first listed.
  void AddGroups(const NvmlApi& api, const NvmlDevice& device, std::vector<ProcessUse>& processes);
  // The driver was reloaded, so its clock may have restarted.
  void Forget() { seen_us_ = 0; }

 private:
  ReadResult<Unit> Add(NvmlCalls& calls, const NvmlDevice& device, nvml::GetProcessesFn* function,
                       const char* what, bool mps);
  nvml::Return Ask(nvml::GetProcessesFn* function, nvml::Device handle);

  std::vector<ProcessUse> now_;
  std::vector<ProcessUse> before_;
  std::map<pid_t, std::string> groups_;   // of those of the last reading
  std::vector<nvml::ProcessInfo> lines_;  // reused: readings are frequent
  std::uint32_t count_ = 0;               // used entries of lines_
  std::vector<nvml::ProcessUtilization> samples_;
  std::uint64_t seen_us_ = 0;  // the driver's newest sample
};

}  // namespace carma::gpu

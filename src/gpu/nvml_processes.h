// The processes on one GPU or instance, as NVML lists them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_devices.h"
#include "gpu/nvml_library.h"
#include "gpu/probe.h"

namespace carma::gpu {

// One per device: remembers what it saw, for /proc is slow beside NVML.
class NvmlProcesses {
 public:
  // One line per pid; without kernel_time. Errors: as NvmlCalls::FailureOf(); kCorrupt: an absurd
  // number.
  ReadResult<std::vector<ProcessUse>> List(NvmlCalls& calls, const NvmlDevice& device);
  // Adds kernel_time to those of List(), of a whole GPU only: clients of MPS and instances have
  // none. busy: the GPU's own utilisation; if kernels ran and the driver names nobody, it does not
  // tell. Errors: only a lost GPU or driver.
  ReadResult<base::Unit> AddKernelTime(NvmlCalls& calls, const NvmlDevice& device,
                                       std::optional<double> busy,
                                       std::vector<ProcessUse>& processes);
  // The driver was loaded anew: its clock may have begun anew.
  void Forget() { seen_us_ = 0; }

 private:
  ReadResult<base::Unit> Add(NvmlCalls& calls, const NvmlDevice& device,
                             nvml::GetProcessesFn* function, const char* what, bool mps);
  nvml::Return Ask(nvml::GetProcessesFn* function, nvml::Device handle);

  std::vector<ProcessUse> now_;
  std::vector<ProcessUse> before_;
  std::vector<nvml::ProcessInfo> lines_;  // reused: readings are frequent
  std::uint32_t count_ = 0;               // of lines_ that were given
  std::vector<nvml::ProcessUtilization> samples_;
  std::uint64_t seen_us_ = 0;  // newest sample of the driver's
};

}  // namespace carma::gpu

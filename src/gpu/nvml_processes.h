// Lists the processes on one GPU or instance with NVML.
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

// Each device has its own object, which caches results because /proc is slow compared with NVML.
class NvmlProcesses {
 public:
  // Sets Reading::processes, with one entry per pid and without kernel_time, and
  // Reading::processes_hidden. Fails with an error from NvmlCalls::FailureOf(), or with kCorrupt if
  // a number is impossible.
  ReadResult<Unit> List(NvmlCalls& calls, const NvmlDevice& device, Reading& reading);
  // Adds kernel_time to the processes from List(). Does nothing for MIG instances and MPS clients.
  // busy: the GPU's utilisation. If kernels ran but the driver names no process, kernel_time is
  // unknown. Fails only if the GPU or the driver is lost.
  ReadResult<Unit> AddKernelTime(NvmlCalls& calls, const NvmlDevice& device,
                                 std::optional<double> busy, std::vector<ProcessUse>& processes);
  // Fills in each process's nearest control group that has a GPU memory limit. Does nothing for MIG
  // instances. A process that moves to another group still counts as a member of the group in which
  // it was first seen.
  void AddGroups(const NvmlApi& api, const NvmlDevice& device, std::vector<ProcessUse>& processes);
  // Must be called after a driver reload, because the driver's clock may have restarted.
  void Forget() { seen_us_ = 0; }

 private:
  // Adds the processes of one list to now_. kind: the properties that all processes on this list
  // have. Returns false if the driver does not have the list.
  ReadResult<bool> Add(NvmlCalls& calls, const NvmlDevice& device, nvml::GetProcessesFn* function,
                       const char* what, const ProcessUse& kind);
  nvml::Return Ask(nvml::GetProcessesFn* function, nvml::Device handle);

  std::vector<ProcessUse> now_;
  std::vector<ProcessUse> before_;
  std::map<pid_t, std::string> groups_;   // for the processes in the last reading
  std::vector<nvml::ProcessInfo> lines_;  // reused, because readings are frequent
  std::uint32_t count_ = 0;               // used entries of lines_
  std::vector<nvml::ProcessUtilization> samples_;
  std::uint64_t seen_us_ = 0;  // time of the driver's newest sample
};

}  // namespace carma::gpu

// Reads GPUs. Knows no tasks, only pids.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace carma::gpu {

struct DeviceInfo {
  std::string uuid;
  std::string name;  // "NVIDIA A100-SXM4-40GB"
  std::string pci;   // "00000000:07:00.0", the order of the list
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  bool reports_sm_activity = false;
  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

struct ProcessUse {
  pid_t pid = 0;
  std::optional<std::int64_t> used_mib;  // empty: the driver does not say
  bool mps_server = false;               // never counted as work
};

// What one device answered at one moment. Absent: not supported or not answered.
struct Reading {
  base::Time taken{};
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;          // without reserved
  std::optional<double> sm_active;    // 0..1, since the previous reading
  std::optional<double> utilization;  // 0..1, "a kernel was running", coarse
  std::optional<double> power_w;
  std::optional<double> energy_j;  // since the driver was loaded
  std::optional<double> temperature_c;
  std::vector<ProcessUse> processes;  // one line per pid
};

class Probe {
 public:
  virtual ~Probe() = default;
  // Devices in PCI order. Errors: kUnavailable: no driver or it does not answer. May block; worker
  // only.
  virtual base::Result<std::vector<DeviceInfo>> Devices() = 0;
  // Errors per device: kUnavailable (try again), kNotFound (the GPU is lost), kCorrupt (a value
  // that cannot be true: NaN, sentinel, used > total). May block; worker only.
  virtual base::Result<Reading> Read(std::size_t device, base::Time now) = 0;
};

}  // namespace carma::gpu

// Limits the GPU memory of a control group (cgroup v2). The kernel or the driver (r615, CUDA 13.4
// and newer) enforces the limit for all processes of the group together. Calls block for as long as
// the driver does, so daemons make these calls through carma-reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_library.h"

namespace carma::gpu {

struct MemoryLimit {
  std::string uuid;                      // a whole GPU's UUID; MIG instances cannot have limits
  std::int64_t soft_mib = 0;             // guaranteed memory; 0: none
  std::optional<std::int64_t> hard_mib;  // allocations beyond it fail; empty: no limit
  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

// group: full path of the group's folder. Stops at the first limit that fails. Returns kUnavailable
// if the library is missing or the driver does not support limits; kDenied if the caller is not
// root; kNotFound if the GPU or group does not exist, or the kernel cannot limit the group (no dmem
// controller in its parent).
Result<Unit> SetMemoryLimits(const NvmlApi& api, const std::string& group,
                             std::span<const MemoryLimit> limits);

struct GroupMemory {
  std::int64_t soft_mib = 0;
  std::optional<std::int64_t> hard_mib;  // empty: no limit
  std::int64_t used_mib = 0;             // by all its processes
  friend bool operator==(const GroupMemory&, const GroupMemory&) = default;
};
// Any user may call this. Empty if the driver does not support limits or does not report the memory
// of this group.
std::optional<GroupMemory> ReadGroupMemory(const NvmlApi& api, nvml::Device device,
                                           const std::string& group);

// Implements `carma-reader memory-limits LIBRARY GROUP [UUID SOFT_MIB HARD_MIB]...`, which sets the
// limits. A hard limit of 0 removes the limit. Returns the exit status and writes errors to stderr.
inline constexpr const char* kMemoryLimitsWord = "memory-limits";
int SetMemoryLimitsFromWords(std::span<const std::string> words);

}  // namespace carma::gpu

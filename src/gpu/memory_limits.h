// Limits on the GPU memory of a control group (cgroup v2), enforced by the kernel or the driver
// (r615, CUDA 13.4 and newer). A limit applies to all processes of the group together. Blocks as
// long as the driver does, so daemons use it through carma-reader.
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
  std::string uuid;                      // a whole GPU; instances (MIG) cannot have limits
  std::int64_t soft_mib = 0;             // guaranteed; 0: none
  std::optional<std::int64_t> hard_mib;  // allocations beyond it fail; empty: no limit
  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

// group: full path of its folder. Sets all or stops at the first that fails. Errors: kUnavailable:
// no such library, or the driver has no limits; kDenied: not root; kNotFound: no such GPU, no such
// group, or the kernel cannot limit it (no dmem controller in its parent).
Result<Unit> SetMemoryLimits(const NvmlApi& api, const std::string& group,
                             std::span<const MemoryLimit> limits);

struct GroupMemory {
  std::int64_t soft_mib = 0;
  std::optional<std::int64_t> hard_mib;  // empty: no limit
  std::int64_t used_mib = 0;             // of all its processes
  friend bool operator==(const GroupMemory&, const GroupMemory&) = default;
};
// Allowed for all users. Empty: the driver has no limits or does not answer for that group.
std::optional<GroupMemory> ReadGroupMemory(const NvmlApi& api, nvml::Device device,
                                           const std::string& group);

// `carma-reader memory-limits LIBRARY GROUP [UUID SOFT_MIB HARD_MIB]...`: sets these limits; a hard
// limit of 0 removes it. Returns the exit status, after an error with its text on stderr.
inline constexpr const char* kMemoryLimitsWord = "memory-limits";
int SetMemoryLimitsFromWords(std::span<const std::string> words);

}  // namespace carma::gpu

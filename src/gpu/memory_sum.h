// Checks whether the driver's memory figures add up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carma::gpu {

// A GPU whose total differs from reserved + free + used.
struct UnevenMemory {
  std::string uuid;  // the whole GPU's UUID
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t used_mib = 0;
  friend bool operator==(const UnevenMemory&, const UnevenMemory&) = default;
};

// Lists GPUs whose figures do not add up, in NVML's order. CARMA gives tasks the total minus the
// reserved memory, and assumes that `used` excludes reserved memory. NVML's newer headers confirm
// this, but the older headers contradict it. The sum shows which headers are right. Empty if
// unsupported. May block, so call it only on a worker thread.
std::vector<UnevenMemory> AskUnevenMemory(const std::string& library);

}  // namespace carma::gpu

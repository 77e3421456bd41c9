// Checks what the driver's amounts of memory mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carma::gpu {

// A GPU whose total is not reserved + free + used.
struct UnevenMemory {
  std::string uuid;  // of the whole GPU
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t used_mib = 0;
  friend bool operator==(const UnevenMemory&, const UnevenMemory&) = default;
};

// CARMA gives tasks total - reserved and assumes that `used` is the memory of processes. According
// to older headers of NVML `used` includes reserved memory, according to newer ones it does not;
// the sum shows which is true. In NVML's order; empty if unsupported. May block; worker only.
std::vector<UnevenMemory> AskUnevenMemory(const std::string& library);

}  // namespace carma::gpu

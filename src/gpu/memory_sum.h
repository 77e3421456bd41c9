// Whether the driver's amounts of memory mean what CARMA takes them for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carma::gpu {

// A GPU of which all is not the sum of what is reserved, free and used.
struct UnevenMemory {
  std::string uuid;  // of the whole GPU
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t free_mib = 0;
  std::int64_t used_mib = 0;
  friend bool operator==(const UnevenMemory&, const UnevenMemory&) = default;
};

// CARMA gives tasks total - reserved and takes `used` for what processes hold. One header of NVML
// says that `used` includes what is reserved, a later one does not; the sum tells. In NVML's order;
// nothing where that cannot be asked. May block; worker only.
std::vector<UnevenMemory> AskUnevenMemory(const std::string& library);

}  // namespace carma::gpu

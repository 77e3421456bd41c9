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

// Lists the GPUs whose reserved, free and used memory do not add up to the total, in NVML's order.
// Empty if the driver does not report these figures. CARMA lets tasks use the total minus the
// reserved memory, assuming that `used` excludes reserved memory. NVML's newer headers say that it
// does, but its older headers say the opposite; the sum shows which are right. May block, so call
// it only on a worker thread.
std::vector<UnevenMemory> AskUnevenMemory(const std::string& library);

}  // namespace carma::gpu

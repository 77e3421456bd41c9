// A GPU's memory as a bar of characters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carma::cli {

// Characters of each part; together `width`.
struct MemoryBarParts {
  std::size_t used = 0;
  std::size_t promised = 0;  // beyond used memory
  std::size_t free = 0;
};
MemoryBarParts PartsOfMemory(std::int64_t used_mib, std::int64_t promised_mib,
                             std::int64_t total_mib, int width);

}  // namespace carma::cli

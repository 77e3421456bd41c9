#include "cli/memory_bar.h"

#include <algorithm>

namespace carma::cli {

MemoryBarParts PartsOfMemory(std::int64_t used_mib, std::int64_t promised_mib,
                             std::int64_t total_mib, int width) {
  const auto part = [&](std::int64_t mib) {
    if (total_mib <= 0) return std::size_t{0};
    const double share = static_cast<double>(mib) / static_cast<double>(total_mib);
    return static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * width + 0.5);
  };
  const std::size_t used = part(used_mib);
  const std::size_t both = std::max(used, part(promised_mib));
  return {used, both - used, static_cast<std::size_t>(width) - both};
}

}  // namespace carma::cli

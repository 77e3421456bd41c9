#include "core/books/settling.h"

#include <algorithm>

namespace carma::core {

bool HasSettled(const GpuSample& sample, std::span<const Resident> residents, Time now,
                Duration timeout) {
  return std::ranges::all_of(residents, [&](const Resident& resident) {
    if (!resident.first_seen) return now - resident.launched >= timeout;
    return sample.window_from >= *resident.first_seen;
  });
}

}  // namespace carma::core

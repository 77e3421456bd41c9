// Bars made of text: small bars for a series of values, and a wider bar for a GPU's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace carma::cli {

// Returns a bar of this height, rounded to eighths. share: clamped to 0..1; 0 gives the lowest bar,
// and an empty value (unknown) gives a blank. blocks: use block characters instead of ASCII ones.
std::string_view SmallBar(std::optional<double> share, bool blocks = true);

// The number of characters in each part of a GPU's memory bar. They add up to `width`.
struct MemoryBarParts {
  std::size_t used = 0;
  std::size_t promised = 0;  // promised beyond the used memory
  std::size_t free = 0;
};
MemoryBarParts PartsOfMemory(std::int64_t used_mib, std::int64_t promised_mib,
                             std::int64_t total_mib, int width);

}  // namespace carma::cli

#include "cli/bars.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace carma::cli {
namespace {

constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kLetters{".", ".", "-", "-", "=", "=", "#", "#"};

}  // namespace

std::string_view SmallBar(std::optional<double> share, bool blocks) {
  if (!share || std::isnan(*share)) return " ";
  const auto highest = static_cast<double>(kBlocks.size() - 1);
  const auto level = static_cast<std::size_t>(std::lround(std::clamp(*share, 0.0, 1.0) * highest));
  return blocks ? kBlocks[level] : kLetters[level];
}

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

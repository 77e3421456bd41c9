#include "cli/small_bars.h"

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

}  // namespace carma::cli

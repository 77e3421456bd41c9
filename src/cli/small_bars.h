// Small bars: a value over time, or several side by side, one character each.
#pragma once

#include <optional>
#include <string_view>

namespace carma::cli {

// The nearest of eight heights. share: of a full bar, clamped to 0..1; empty: unknown, shown as a
// blank (0 is the lowest bar). blocks: use block characters, else letters.
std::string_view SmallBar(std::optional<double> share, bool blocks = true);

}  // namespace carma::cli

// Small bars: a value over time, or several side by side, one character each.
#pragma once

#include <optional>
#include <string_view>

namespace carma::cli {

// The nearest of eight heights. share: of a full bar, cut to 0..1; empty: not known, a blank, while
// nothing at all is the lowest bar. blocks: parts of a character can be shown; else letters
// stand for them.
std::string_view SmallBar(std::optional<double> share, bool blocks = true);

}  // namespace carma::cli

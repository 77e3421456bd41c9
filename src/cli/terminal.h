// What the screen can show.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace carma::cli {

struct Screen {
  int width = 0;  // characters in a line; 0: no terminal, nothing is cut
  bool colour = false;
};
// Colour only on a terminal, and not where NO_COLOR is set or TERM is "dumb".
Screen ScreenOf(std::FILE* out);

enum class Colour { kNone, kGood, kWaiting, kBad, kFaint };
std::string Paint(std::string_view text, Colour colour, const Screen& screen);

// Characters a terminal shows for UTF-8 text: code points, as far as tables need it.
std::size_t ShownWidth(std::string_view text);
// At most `width` characters, the last one '…' if something was cut.
std::string CutTo(std::string_view text, std::size_t width);

}  // namespace carma::cli

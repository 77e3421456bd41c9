// What the screen can show.
#pragma once

#include <cstdio>
#include <optional>
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
// How many bytes the first so many characters take.
std::size_t BytesOf(std::string_view text, std::size_t characters);
// Lines that are longer than the screen go on in the next one, between words where that can be,
// below column `hanging`; empty: two columns right of where the line began.
std::string WrapTo(std::string_view text, const Screen& screen,
                   std::optional<std::size_t> hanging = std::nullopt);
// At most `width` characters, the last one '…' if something was cut.
std::string CutTo(std::string_view text, std::size_t width);

}  // namespace carma::cli

// Finds out what the terminal can show, and makes text fit it.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace carma::cli {

struct Screen {
  int width = 0;  // columns; 0 if there is no terminal, so nothing is cut
  bool colour = false;
  int height = 0;  // lines; 0 if unknown
};
// Uses colour only on a terminal, unless NO_COLOR is set or TERM is "dumb".
Screen ScreenOf(std::FILE* out);

enum class Colour { kNone, kGood, kWaiting, kBad, kFaint };
std::string Paint(std::string_view text, Colour colour, const Screen& screen);

// The columns that UTF-8 text takes up on a terminal. Chinese, Japanese and Korean characters and
// emoji take two.
std::size_t ShownWidth(std::string_view text);
// Returns the output that redraws the screen with this text. Omits lines beyond the screen's
// height, because they would scroll the first lines away. No line of `text` may be wider than the
// screen.
std::string Redrawn(std::string_view text, const Screen& screen);
// The number of bytes in the longest prefix of the text that fits in this many columns.
std::size_t BytesOf(std::string_view text, std::size_t columns);
// Wraps lines that are wider than the screen, between words if possible. Continuation lines begin
// at column `hanging` or, if it is empty, two columns further right than the line itself.
std::string WrapTo(std::string_view text, const Screen& screen,
                   std::optional<std::size_t> hanging = std::nullopt);
// Cuts the text to at most `width` columns. If something was cut, the last character is '…'.
std::string CutTo(std::string_view text, std::size_t width);

}  // namespace carma::cli

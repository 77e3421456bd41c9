#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace carma::cli {
namespace {

// Ranges of characters that take two columns: Chinese, Japanese, Korean and emoji. Below 0x2E80,
// only the emoji that training programs print are listed. wcwidth() would need a UTF-8 locale,
// which is missing with LC_ALL=C.
constexpr std::pair<char32_t, char32_t> kWide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},
    {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
    {0x20000, 0x3FFFD}, {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x23F0, 0x23F0},
    {0x23F3, 0x23F3},   {0x26A1, 0x26A1},   {0x26AA, 0x26AB},   {0x2705, 0x2705},
    {0x2728, 0x2728},   {0x274C, 0x274C},   {0x2753, 0x2757},   {0x2795, 0x2797},
    {0x2B50, 0x2B50},   {0x1F7E0, 0x1F7EB}, {0x1FA70, 0x1FAFF},
};

// The columns of the character that begins at this byte; 0 inside a character and for accents that
// combine with the character before them.
std::size_t ColumnsAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC0) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t character = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) character = character << 6 | (byte(i) & 0x3F);
  if (character >= 0x300 && character <= 0x36F) return 0;
  const bool wide = std::ranges::any_of(kWide, [character](const auto& range) {
    return character >= range.first && character <= range.second;
  });
  return wide ? 2 : 1;
}

}  // namespace

Screen ScreenOf(std::FILE* out) {
  const int fd = ::fileno(out);
  if (fd < 0 || ::isatty(fd) != 1) return {};
  Screen screen{.width = 80};
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    screen.width = size.ws_col;
    screen.height = size.ws_row;
  }
  screen.colour = base::GetEnv("NO_COLOR").empty() && base::GetEnv("TERM", "dumb") != "dumb";
  return screen;
}

std::string Redrawn(std::string_view text, const Screen& screen) {
  std::size_t end = 0;
  // The last line is for the cursor, and the line above it for the note about omitted lines.
  for (int line = 2; line < screen.height && end < text.size(); ++line)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  const auto more = std::ranges::count(text.substr(end), '\n');
  if (screen.height < 3 || more < 2) return "\033[H\033[J" + std::string(text);
  return fmt::format("\033[H\033[J{}… {} more lines\n", text.substr(0, end), more);
}

std::string Paint(std::string_view text, Colour colour, const Screen& screen) {
  if (!screen.colour || colour == Colour::kNone) return std::string(text);
  constexpr std::string_view kCodes[] = {"", "32", "33", "31", "2"};  // by Colour
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<std::size_t>(colour)], text);
}

std::size_t ShownWidth(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size(); ++at) width += ColumnsAt(text, at);
  return width;
}

std::size_t BytesOf(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t shown = 0; bytes < text.size(); ++bytes) {
    shown += ColumnsAt(text, bytes);
    if (shown > columns) break;
  }
  return bytes;
}

std::string WrapTo(std::string_view text, const Screen& screen,
                   std::optional<std::size_t> hanging) {
  if (screen.width <= 0) return std::string(text);
  const auto width = static_cast<std::size_t>(screen.width);
  std::string wrapped;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    // Narrow screens have no room for indentation.
    std::size_t indent = hanging.value_or(begin + 2);
    if (indent * 2 > width) indent = 0;
    while (ShownWidth(line) > width) {
      const std::size_t full = BytesOf(line, width);
      if (full <= indent) break;  // not even one wide character fits
      const std::size_t blank = line.rfind(' ', full);
      const bool between = blank != std::string::npos && blank > std::max(begin, indent);
      wrapped += line.substr(0, between ? blank : full) + "\n";
      line = std::string(indent, ' ') + line.substr(between ? blank + 1 : full);
    }
    wrapped += line;
    if (end < text.size()) wrapped += '\n';
    at = end + 1;
  }
  return wrapped;
}

std::string CutTo(std::string_view text, std::size_t width) {
  if (ShownWidth(text) <= width) return std::string(text);
  return width == 0 ? "" : std::string(text.substr(0, BytesOf(text, width - 1))) + "…";
}

}  // namespace carma::cli

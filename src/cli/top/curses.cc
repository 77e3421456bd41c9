#include "cli/top/curses.h"

#define NCURSES_NOMACROS  // because other headers also use "timeout" and "move"
#include <langinfo.h>
#include <ncurses.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace carma::cli {
namespace {

enum Pair : short { kGreen = 1, kYellow, kRed };

bool ShowsUtf8() {
  return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
}

attr_t Attributes(TopStyle style) {
  const auto colour = [](Pair pair) -> attr_t {
    return ::has_colors() ? static_cast<attr_t>(COLOR_PAIR(pair)) : 0;
  };
  const attr_t attributes[] = {0,     colour(kGreen), colour(kYellow), colour(kRed) | A_BOLD,
                               A_DIM, A_BOLD,         A_REVERSE};
  return attributes[static_cast<std::size_t>(style)];
}

TopStroke StrokeOf(int key) {
  constexpr std::array<std::pair<int, TopKey>, 12> kKeys{{
      {KEY_UP, TopKey::kUp},
      {KEY_DOWN, TopKey::kDown},
      {KEY_PPAGE, TopKey::kPageUp},
      {KEY_NPAGE, TopKey::kPageDown},
      {KEY_HOME, TopKey::kHome},
      {KEY_END, TopKey::kEnd},
      {KEY_ENTER, TopKey::kEnter},
      {'\n', TopKey::kEnter},
      {'\r', TopKey::kEnter},
      {27, TopKey::kEscape},
      {KEY_BACKSPACE, TopKey::kBackspace},
      {127, TopKey::kBackspace},
  }};
  const auto found = std::ranges::find(kKeys, key, &std::pair<int, TopKey>::first);
  if (found != kKeys.end()) return {found->second};
  if (key >= ' ' && key < 127) return {TopKey::kCharacter, static_cast<char>(key)};
  return {};
}

}  // namespace

CursesScreen::CursesScreen() {
  std::setlocale(LC_CTYPE, "");
  // Not initscr(), which would end the program if the terminal is unknown.
  screen_ = ::newterm(nullptr, stdout, stdin);
  if (screen_ == nullptr) return;
  ::cbreak();
  ::noecho();
  ::keypad(stdscr, true);
  ::set_escdelay(25);
  ::curs_set(0);
  if (::has_colors() && base::GetEnv("NO_COLOR").empty()) {
    ::start_color();
    ::use_default_colors();
    ::init_pair(kGreen, COLOR_GREEN, -1);
    ::init_pair(kYellow, COLOR_YELLOW, -1);
    ::init_pair(kRed, COLOR_RED, -1);
  }
}

CursesScreen::~CursesScreen() {
  if (screen_ != nullptr) ::endwin();
}

TopSize CursesScreen::size() const {
  return {getmaxy(stdscr), getmaxx(stdscr), ShowsUtf8()};
}

void CursesScreen::Show(const std::vector<TopLine>& lines) {
  ::werase(stdscr);
  for (std::size_t row = 0; row < lines.size(); ++row) {
    ::wmove(stdscr, static_cast<int>(row), 0);
    for (const TopPiece& piece : lines[row]) {
      ::wattrset(stdscr, static_cast<int>(Attributes(piece.style)));
      ::waddstr(stdscr, piece.text.c_str());
    }
  }
  ::wattrset(stdscr, 0);
  ::wrefresh(stdscr);
}

std::optional<TopStroke> CursesScreen::Await(std::chrono::milliseconds patience) {
  ::wtimeout(stdscr, static_cast<int>(patience.count()));
  const int key = ::wgetch(stdscr);
  if (key == ERR) return std::nullopt;
  return StrokeOf(key);
}

bool CursesScreen::gone() const {
  pollfd terminal{.fd = STDIN_FILENO, .events = POLLIN};
  return ::poll(&terminal, 1, 0) > 0 && (terminal.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace carma::cli

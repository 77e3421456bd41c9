// Terminal UI for `carma top`, based on ncurses.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "cli/top/frame.h"

namespace carma::cli {

// Owns the whole terminal while it exists. Only one may exist at a time.
class CursesScreen {
 public:
  CursesScreen();
  ~CursesScreen();
  // False if this machine has no description of the terminal ($TERM).
  explicit operator bool() const { return screen_ != nullptr; }
  CursesScreen(const CursesScreen&) = delete;
  CursesScreen& operator=(const CursesScreen&) = delete;

  TopSize size() const;
  void Show(const std::vector<TopLine>& lines);
  // Returns the next key press or a resize event; empty if neither arrives within `patience`.
  std::optional<TopStroke> Await(std::chrono::milliseconds patience);
  // True if the terminal has been closed, in which case Await() no longer waits.
  bool gone() const;

 private:
  void* screen_ = nullptr;  // belongs to curses
};

}  // namespace carma::cli

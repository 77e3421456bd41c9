// The terminal of `carma top`, by ncurses.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "cli/top/frame.h"

namespace carma::cli {

// While it exists, it owns the whole terminal; only one may exist at a time.
class CursesScreen {
 public:
  CursesScreen();
  ~CursesScreen();
  CursesScreen(const CursesScreen&) = delete;
  CursesScreen& operator=(const CursesScreen&) = delete;

  TopSize size() const;
  void Show(const std::vector<TopLine>& lines);
  // The next key, including the one for a resized window; empty: none within the patience.
  std::optional<TopStroke> Await(std::chrono::milliseconds patience);
};

}  // namespace carma::cli

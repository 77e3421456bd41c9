// Text in aligned columns that fits the screen.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace carma::cli {

struct Column {
  std::string title;
  bool right = false;         // numbers
  std::size_t min_width = 0;  // cut down to this on a narrow screen; 0: never cut
};

struct Cell {
  std::string text;  // printable, one line
  Colour colour = Colour::kNone;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell per column.
  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  std::size_t size() const { return rows_.size(); }
  // Title line and rows, two blanks between columns, no trailing blanks.
  std::string Text(const Screen& screen, bool titles = true) const;

 private:
  std::vector<std::size_t> Widths(const Screen& screen, bool titles) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace carma::cli

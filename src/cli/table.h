// Text in aligned columns that fits the screen, and lines of facts.
#pragma once

#include <string>
#include <string_view>
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

// Columns with these titles: first text columns, then number columns.
std::vector<Column> TextsAndNumbers(const std::vector<std::string>& texts,
                                    const std::vector<std::string>& numbers);

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

// "  Label        text" lines. Entries with an empty text are left out; an empty label continues
// the entry above.
class Facts {
 public:
  void Add(std::string_view label, const std::string& text);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The column where texts begin.
inline constexpr std::size_t kFactsIndent = 16;

}  // namespace carma::cli

// Lays out text as aligned columns that fit the screen, or as labelled lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal.h"

namespace carma::cli {

struct Column {
  std::string title;
  bool right = false;         // right-aligned, for numbers
  std::size_t min_width = 0;  // minimum width on a narrow screen; 0 if it is never cut
};

struct Cell {
  std::string text;  // printable, one line
  Colour colour = Colour::kNone;
};

// Makes columns with these titles. The text columns come first, then the number columns.
std::vector<Column> TextsAndNumbers(const std::vector<std::string>& texts,
                                    const std::vector<std::string>& numbers);

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // The row must have one cell per column.
  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  std::size_t size() const { return rows_.size(); }
  // Writes the header line and the rows, with two spaces between columns and no trailing spaces.
  std::string Text(const Screen& screen, bool titles = true) const;

 private:
  std::vector<std::size_t> Widths(const Screen& screen, bool titles) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Makes lines of the form "  Label        text". Entries without text are omitted. An entry without
// a label continues the one above it.
class Facts {
 public:
  void Add(std::string_view label, const std::string& text);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The column at which the text of a line of Facts begins.
inline constexpr std::size_t kFactsIndent = 16;

}  // namespace carma::cli

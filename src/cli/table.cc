#include "cli/table.h"

#include <algorithm>

namespace carma::cli {
namespace {

constexpr std::size_t kGap = 2;

}  // namespace

std::vector<Column> TextsAndNumbers(const std::vector<std::string>& texts,
                                    const std::vector<std::string>& numbers) {
  std::vector<Column> columns;
  for (const std::string& title : texts) columns.push_back({title});
  for (const std::string& title : numbers) columns.push_back({title, true});
  return columns;
}

std::vector<std::size_t> Table::Widths(const Screen& screen, bool titles) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = titles ? ShownWidth(columns_[c].title) : 0;
    for (const auto& row : rows_) width = std::max(width, ShownWidth(row[c].text));
    widths.push_back(width);
    total += width + (c > 0 ? kGap : 0);
  }
  if (screen.width <= 0) return widths;
  // While the columns do not fit, takes one character from the widest column that may be cut.
  const auto limit = static_cast<std::size_t>(screen.width);
  while (total > limit) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const bool cuttable = columns_[c].min_width > 0 && widths[c] > columns_[c].min_width;
      if (cuttable && (widest == columns_.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string Table::Text(const Screen& screen, bool titles) const {
  const std::vector<std::size_t> widths = Widths(screen, titles);
  std::string out;
  const auto add_line = [&](const auto& cell_at) {
    std::string line;
    std::size_t pending = 0;  // spaces that are written only if text follows
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Cell cell = cell_at(c);
      const std::string text = CutTo(cell.text, widths[c]);
      const std::size_t fill = widths[c] - ShownWidth(text);
      if (columns_[c].right) pending += fill;
      if (!text.empty()) {
        line.append(pending, ' ');
        line += Paint(text, cell.colour, screen);
        pending = 0;
      }
      pending += (columns_[c].right ? 0 : fill) + kGap;
    }
    out += line + "\n";
  };
  if (titles) add_line([&](std::size_t c) { return Cell{columns_[c].title, Colour::kNone}; });
  for (const auto& row : rows_) add_line([&](std::size_t c) { return row[c]; });
  return out;
}

void Facts::Add(std::string_view label, const std::string& text) {
  if (text.empty()) return;
  constexpr std::size_t kLabelWidth = kFactsIndent - 2;
  text_ += "  ";
  text_ += label;
  text_.append(label.size() < kLabelWidth ? kLabelWidth - label.size() : 1, ' ');
  text_ += text + "\n";
}

}  // namespace carma::cli

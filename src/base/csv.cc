#include "base/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::base {
namespace {

std::unexpected<Error> BadLine(std::string_view where, int line, std::string_view what) {
  return Invalid("{}{}: {}", where.empty() ? "line " : std::string(where) + ":", line, what);
}

// Removes one record from the front of the text, and advances `line` past it.
Result<std::vector<std::string>> TakeRecord(std::string_view& text, std::string_view where,
                                            int& line) {
  std::vector<std::string> cells(1);
  const int first_line = line;
  bool quoted = false;
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        cells.back() += '"';
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        if (c == '\n') ++line;
        cells.back() += c;
      }
    } else if (c == '"' && cells.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  if (quoted) return BadLine(where, first_line, "unclosed quote");
  text.remove_prefix(std::min(i + 1, text.size()));
  ++line;
  return cells;
}

}  // namespace

std::string_view CsvRow::Text(std::string_view column) const {
  for (std::size_t i = 0; i < header_->size(); ++i) {
    if ((*header_)[i] == column) return cells_[i];
  }
  return {};
}

Result<std::optional<double>> CsvRow::Number(std::string_view column, double low,
                                             double high) const {
  const std::string_view text = Trim(Text(column));
  if (text.empty()) return std::optional<double>();
  const std::optional<double> number = ParseDouble(text);
  if (!number || *number < low || *number > high) {
    return Wrong(fmt::format("column '{}': expected a number from {:.6f} to {:.6f}, not '{}'",
                             column, low, high, Printable(text, 40)));
  }
  return number;
}

Result<double> CsvRow::Required(std::string_view column, double low, double high) const {
  const std::optional<double> number = CARMA_TRY(Number(column, low, high));
  if (!number) return Wrong(fmt::format("column '{}' is empty", column));
  return *number;
}

std::unexpected<Error> CsvRow::Wrong(std::string_view what) const {
  return BadLine(where_, line_, what);
}

bool CsvTable::HasColumn(std::string_view column) const {
  return std::ranges::find(header_, column) != header_.end();
}

Result<CsvTable> CsvTable::Read(const std::string& path, const std::vector<std::string>& required,
                                std::size_t max_bytes) {
  const std::string text = CARMA_TRY(ReadFile(path, max_bytes));
  if (text.starts_with("\x1F\x8B")) return Invalid(path + ": a gzip file; use gunzip first");
  return Parse(text, required, kMaxCsvRows, path);
}

Result<CsvTable> CsvTable::Parse(std::string_view text, const std::vector<std::string>& required,
                                 std::size_t max_rows, std::string_view where) {
  CsvTable table;
  table.where_ = where;
  int line = 1;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const int at = line;
    if (text.front() == '#') {
      text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
      ++line;
      continue;
    }
    std::vector<std::string> cells = CARMA_TRY(TakeRecord(text, where, line));
    if (cells.size() == 1 && Trim(cells.front()).empty()) continue;
    if (table.header_.empty()) {
      for (std::string& name : cells) table.header_.emplace_back(Trim(name));
      const std::string same = SameColumns(table.header_);
      if (!same.empty()) return BadLine(where, at, same);
      for (const std::string& name : required) {
        if (!table.HasColumn(name))
          return BadLine(where, at, "no column '" + name + "' in the header");
      }
      continue;
    }
    if (cells.size() != table.header_.size()) {
      const std::string columns = Counted(std::ssize(cells), "column");
      const bool comma = cells.size() > table.header_.size() && Trim(cells.back()).empty();
      return BadLine(where, at,
                     fmt::format("{}, expected {}{}", columns, table.header_.size(),
                                 comma ? "; remove the comma at the end" : ""));
    }
    if (table.rows_.size() == max_rows)
      return BadLine(where, at, fmt::format("more than {} rows", max_rows));
    table.rows_.push_back(std::move(cells));
    table.lines_.push_back(at);
  }
  if (table.header_.empty())
    return Invalid("{}{}no header line: the table is empty", where, where.empty() ? "" : ": ");
  return table;
}

std::string SameColumns(const std::vector<std::string>& header) {
  for (const std::string& name : header) {
    if (!name.empty() && std::ranges::count(header, name) > 1)
      return fmt::format("two columns are named '{}'; rename or remove one", Printable(name, 60));
  }
  return "";
}

std::string CsvCell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + "\"";
}

}  // namespace carma::base

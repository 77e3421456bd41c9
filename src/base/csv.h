// Reads untrusted comma-separated text with a header line. Sizes are limited, and errors name the
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::base {

inline constexpr std::size_t kMaxCsvRows = 2'000'000;

// One data row. Cells are looked up by the names in the header.
class CsvRow {
 public:
  CsvRow(const std::vector<std::string>* header, std::vector<std::string> cells,
         std::string_view where, int line)
      : header_(header), cells_(std::move(cells)), where_(where), line_(line) {}
  int line() const { return line_; }
  // Empty if there is no such column.
  std::string_view Text(std::string_view column) const;
  // Return kInvalid "tasks.csv:7: column 'gpus': expected …" if the cell is not a number from low
  // to high. Number() accepts an empty cell, but Required() does not.
  Result<std::optional<double>> Number(std::string_view column, double low, double high) const;
  Result<double> Required(std::string_view column, double low, double high) const;
  // Returns a kInvalid error that names the row's file and line, for problems that the caller
  // finds.
  std::unexpected<Error> Wrong(std::string_view what) const;

 private:
  const std::vector<std::string>* header_;
  std::vector<std::string> cells_;
  std::string_view where_;
  int line_;
};

// A whole table in memory. Double quotes follow RFC 4180, lines starting with '#' are comments, and
// CRLF is accepted.
class CsvTable {
 public:
  // where: the file name. Messages begin with "tasks.csv:7: ", or with "line 7: " if `where` is
  // empty. Returns kInvalid, naming the line, if there is no header, a required column is missing,
  // two columns have the same name, rows differ in length, a quote is not closed, or there are more
  // than max_rows rows.
  static Result<CsvTable> Parse(std::string_view text, const std::vector<std::string>& required,
                                std::size_t max_rows = kMaxCsvRows, std::string_view where = {});
  // Reads a file and includes its path in error messages. Returns any error from ReadFile() or
  // Parse().
  static Result<CsvTable> Read(const std::string& path, const std::vector<std::string>& required,
                               std::size_t max_bytes);
  std::size_t size() const { return rows_.size(); }
  // The table must outlive the row.
  CsvRow Row(std::size_t i) const { return {&header_, rows_[i], where_, lines_[i]}; }
  bool HasColumn(std::string_view column) const;
  const std::vector<std::string>& header() const { return header_; }

 private:
  std::string where_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<int> lines_;
};

// "two columns are named 'lr'; rename or remove one". Empty if all names differ. Unnamed columns
// are allowed.
std::string SameColumns(const std::vector<std::string>& header);

// One CSV cell, quoted if it contains a comma, a quote or a line break.
std::string CsvCell(std::string_view text);

}  // namespace carma::base

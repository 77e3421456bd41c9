// SQL statements built from the columns of the tables (store/tables.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "store/tables.h"

namespace carma::store {

// A visitor that collects a table's column names.
class ColumnNames {
 public:
  template <class Value>
  void operator()(const char* name, const Value&) {
    names.emplace_back(name);
  }
  void operator()(const char* mib, const char* method, const char* predicted,
                  const std::optional<core::Estimate>&) {
    names.insert(names.end(), {mib, method, predicted});
  }
  template <class Pair>
  void operator()(const char* one, const char* other, const std::optional<Pair>&) {
    names.insert(names.end(), {one, other});
  }
  std::vector<std::string> names;
};

// Joins the names, putting `before` and `after` around each name.
std::string JoinColumns(const std::vector<std::string>& names, std::string_view before = "",
                        std::string_view after = "", std::string_view separator = ",");
// Returns "?,?,?" with `count` question marks.
std::string Marks(std::size_t count);

// The column names of Table<Row>.
template <class Row>
std::vector<std::string> ColumnsOf() {
  ColumnNames columns;
  const Row row;
  Table<Row>::Visit(columns, row);
  return std::move(columns.names);
}
// Returns "SELECT a,b,c FROM table ", built once per table.
template <class Row>
const std::string& SelectSql() {
  static const std::string text =
      "SELECT " + JoinColumns(ColumnsOf<Row>()) + " FROM " + Table<Row>::kName + " ";
  return text;
}
// "table(a,b,c) VALUES(?,?,?)".
template <class Row>
std::string IntoSql() {
  const std::vector<std::string> columns = ColumnsOf<Row>();
  return std::string(Table<Row>::kName) + "(" + JoinColumns(columns) + ") VALUES(" +
         Marks(columns.size()) + ")";
}
// "INSERT INTO table(a,b,c) VALUES(?,?,?)".
template <class Row>
const std::string& InsertSql() {
  static const std::string text = "INSERT INTO " + IntoSql<Row>();
  return text;
}
// "INSERT OR REPLACE INTO table(a,b,c) VALUES(?,?,?)": adds a row, or replaces the row with the
// same key.
template <class Row>
const std::string& ReplaceSql() {
  static const std::string text = "INSERT OR REPLACE INTO " + IntoSql<Row>();
  return text;
}

// TaskColumns() lists all columns of table task except the id. RecordColumns() lists those that
// UpdateRecordSql() sets.
std::vector<std::string> TaskColumns();
std::vector<std::string> RecordColumns();
std::string InsertTaskSql();
std::string UpdateRecordSql();
// Selects rows of `task` with their descriptions. The columns are in the order in which ReadTask()
// (reads.cc) reads them.
std::string SelectTasksSql();
inline constexpr const char* kPutDescription =
    "INSERT INTO description(id,gid,template,spec,stdout_path,stderr_path) VALUES(?,?,?,?,?,?) "
    "ON CONFLICT(id) DO UPDATE SET gid=excluded.gid,template=excluded.template,spec=excluded.spec,"
    "stdout_path=excluded.stdout_path,stderr_path=excluded.stderr_path";
// Returns the names of the final states, or of all others if `final` is false, as an SQL list such
// as "'queued','running'".
std::string QuotedStates(bool final);

// A condition on table `task` that selects tasks whose submission has been stored completely.
inline constexpr std::string_view kArrived =
    "NOT EXISTS (SELECT 1 FROM arrival WHERE first <= task.id AND past_last > task.id)";

struct Query {
  std::string sql;
  std::vector<std::variant<std::int64_t, std::string>> arguments;  // for the placeholders, in order
};

// Returns a SELECT of at most filter.limit ids. It uses the index with the fewest rows to read, so
// a page of 50 tasks costs the same whether 100 or 100 000 tasks are stored.
Query CandidateIds(const TaskFilter& filter);

}  // namespace carma::store

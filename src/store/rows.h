// Conversion of values to and from SQLite: binding parameters of a statement, reading columns of a
// row. Both are visitors of the tables (store/tables.h).
#pragma once

#include <SQLiteCpp/Statement.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/words.h"
#include "store/store.h"

namespace carma::store {

// Binds values to the parameters of a statement, one after another.
class Binder {
 public:
  explicit Binder(SQLite::Statement& statement, int first = 1)
      : statement_(&statement), next_(first) {}

  template <class Value>
  void operator()(const char*, const Value& value) {
    Bind(value);
  }
  void operator()(const char*, const char*, const char*,
                  const std::optional<core::Estimate>& value);
  void operator()(const char*, const char*, const std::optional<task::FormulaSplit>& value);
  void operator()(const char*, const char*, const std::optional<core::MpsParameters>& value);

  void Bind(std::int64_t value);
  void Bind(int value) { Bind(static_cast<std::int64_t>(value)); }
  void Bind(std::uint32_t value) { Bind(static_cast<std::int64_t>(value)); }
  void Bind(bool value) { Bind(static_cast<std::int64_t>(value)); }
  void Bind(double value);  // NaN becomes NULL
  void Bind(const std::string& value);
  void Bind(core::TaskId value) { Bind(static_cast<std::int64_t>(core::Number(value))); }
  void Bind(core::KindId value) { Bind(static_cast<std::int64_t>(core::Number(value))); }
  void Bind(core::ReservationId value) { Bind(static_cast<std::int64_t>(core::Number(value))); }
  void Bind(core::Time value) { Bind(base::ToMs(value)); }
  void Bind(core::Duration value) { Bind(static_cast<std::int64_t>(value.count())); }
  // Enums are stored as words: the file stays readable, and an enum can be reordered.
  template <base::HasWords Enum>
  void Bind(Enum value) {
    BindWord(base::WordOf(value));
  }
  void Bind(const std::vector<core::Dependency>& value);
  void Bind(const std::vector<core::Placement>& value);
  void Bind(const std::vector<std::string>& value);
  template <class Value>
  void Bind(const std::optional<Value>& value) {
    if (value) {
      Bind(*value);
    } else {
      BindNull();
    }
  }
  void Bind(const std::optional<std::uint64_t>& value);

 private:
  void BindNull();
  void BindWord(std::string_view word);

  SQLite::Statement* statement_;
  int next_;
};

// Reads the columns of the current row, one after another. Impossible values are noted; check
// problem() at the end.
class Reader {
 public:
  explicit Reader(SQLite::Statement& statement) : statement_(&statement) {}

  template <class Value>
  void operator()(const char* name, Value& value) {
    name_ = name;
    Read(value);
  }
  void operator()(const char* mib, const char* method, const char* predicted,
                  std::optional<core::Estimate>& value);
  void operator()(const char* context, const char* rest, std::optional<task::FormulaSplit>& value);
  void operator()(const char* sensitivity, const char* pressure,
                  std::optional<core::MpsParameters>& value);

  void Read(std::int64_t& value);
  void Read(int& value);
  void Read(std::uint32_t& value);
  void Read(bool& value);
  void Read(double& value);  // NULL becomes NaN
  void Read(std::string& value);
  void Read(core::TaskId& value);
  void Read(core::KindId& value);
  void Read(core::ReservationId& value);
  void Read(core::Time& value);
  void Read(core::Duration& value);
  template <base::HasWords Enum>
  void Read(Enum& value) {
    const std::optional<Enum> meant = base::FromWord<Enum>(Text());
    if (!meant) return Complain("a known word");
    value = *meant;
  }
  void Read(std::vector<core::Dependency>& value);
  void Read(std::vector<core::Placement>& value);
  void Read(std::vector<std::string>& value);
  template <class Value>
  void Read(std::optional<Value>& value) {
    if (AtNull()) {
      ++next_;
      value.reset();
    } else {
      Read(value.emplace());
    }
  }
  void Read(std::optional<std::uint64_t>& value);

  // The first impossible value: its column and what was expected; empty: none.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  bool AtNull();
  std::int64_t Integer(std::int64_t low, std::int64_t high);
  std::string Text();
  void Complain(std::string_view expected);

  SQLite::Statement* statement_;
  int next_ = 0;
  const char* name_ = "id";
  std::optional<std::string> problem_;
};

}  // namespace carma::store

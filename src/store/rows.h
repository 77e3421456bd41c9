// Converts values to and from SQLite. A Binder binds the parameters of a statement, and a Reader
// reads the columns of a row. Both are visitors of the tables (store/tables.h).
#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/words.h"
#include "store/store.h"

namespace carma::store {

template <class Id>
concept HasNumber = requires(Id id) {
  core::Number(id);
};

// Binds values to the parameters of a statement in order.
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
  // Two numbers that are either both known or both unknown.
  template <class Pair>
  void operator()(const char*, const char*, const std::optional<Pair>& value) {
    const auto& [first, second] = value.value_or(Pair{});
    Bind(value ? std::optional(first) : std::nullopt);
    Bind(value ? std::optional(second) : std::nullopt);
  }

  // SIZE_MAX (no limit) becomes -1, which SQLite also treats as no limit.
  void Bind(std::integral auto value) {
    statement_->bind(next_++, static_cast<std::int64_t>(value));
  }
  void Bind(double value);  // NaN becomes NULL
  void Bind(const std::string& value) { statement_->bind(next_++, value); }
  template <HasNumber Id>
  void Bind(Id value) {
    Bind(core::Number(value));
  }
  void Bind(core::Time value) { Bind(base::ToMs(value)); }
  void Bind(core::Duration value) { Bind(value.count()); }
  // Enums are stored as words, so that people can read the file and enumerators can be reordered.
  template <base::HasWords Enum>
  void Bind(Enum value) {
    Bind(std::string(base::WordOf(value)));
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

 private:
  void BindNull() { statement_->bind(next_++); }

  SQLite::Statement* statement_;
  int next_;
};

// Reads the columns of the current row in order. Invalid values do not stop it, so check problem()
// at the end.
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
  template <class Pair>
  void operator()(const char* one, const char* other, std::optional<Pair>& value) {
    auto& [first, second] = value.emplace();
    std::optional<std::remove_reference_t<decltype(first)>> one_read, other_read;
    (*this)(one, one_read);
    (*this)(other, other_read);
    if (one_read.has_value() != other_read.has_value())
      Complain(std::string("both this and ") + one + " or neither");
    first = one_read.value_or(0);
    second = other_read.value_or(0);
    if (!one_read || !other_read) value.reset();
  }

  template <std::integral Whole>
  void Read(Whole& value) {
    value = Integer<Whole>();
  }
  void Read(double& value);  // NULL becomes NaN
  void Read(std::string& value) { value = Text(); }
  template <HasNumber Id>
  void Read(Id& value) {
    value = Id{Integer<std::uint64_t>()};
  }
  void Read(core::Time& value) { value = base::FromMs(Integer<std::int64_t>()); }
  void Read(core::Duration& value) { value = core::Duration(Integer<std::int64_t>()); }
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

  // The column with the first invalid value, and what was expected there. Empty if all values were
  // valid.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  bool AtNull() { return statement_->isColumnNull(next_); }
  template <std::integral Whole>
  Whole Integer() {
    using Limits = std::numeric_limits<Whole>;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return static_cast<Whole>(
        IntegerIn(Limits::min(), std::min<std::uint64_t>(Limits::max(), kMost)));
  }
  std::int64_t IntegerIn(std::int64_t low, std::int64_t high);
  std::string Text() { return statement_->getColumn(next_++).getString(); }
  void Complain(std::string_view expected);

  SQLite::Statement* statement_;
  int next_ = 0;
  const char* name_ = "id";
  std::optional<std::string> problem_;
};

}  // namespace carma::store

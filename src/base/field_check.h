// Checks a value against the rules of its fields (base/fields.h).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/time.h"

namespace carma::base {

class FieldChecker {
 public:
  template <class Value>
  void operator()(const char* name, const Value& value, const char* = "",
                  const FieldRule& rule = {}) {
    if (mistake_) return;
    if constexpr (std::is_same_v<Value, std::string>) {
      Text(name, value, rule);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      for (const std::string& each : value) Text(name, each, rule);
    } else if constexpr (std::is_same_v<Value, Duration>) {
      Whole(name, value.count(), rule);
    } else if constexpr (std::is_same_v<Value, Time>) {
      Whole(name, ToMs(value), rule);
    } else if constexpr (std::is_same_v<Value, double>) {
      if (!(value >= rule.least && value <= rule.most)) Complain(name, rule.expected);
    } else if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
      Whole(name, static_cast<std::int64_t>(value), rule);
    } else if constexpr (requires {
                           typename Value::value_type;
                           *value;
                         }) {
      if (value) (*this)(name, *value, "", rule);
    }
  }

  const std::optional<Error>& mistake() const { return mistake_; }

 private:
  void Text(const char* name, std::string_view text, const FieldRule& rule);
  void Whole(const char* name, std::int64_t number, const FieldRule& rule);
  void Complain(const char* name, std::string_view expected);

  std::optional<Error> mistake_;
};

// Returns kInvalid "field: expected …" for the first invalid field. Nested dictionaries and objects
// are not checked.
template <HasFields T>
Result<Unit> CheckFields(const T& value) {
  FieldChecker checker;
  T::VisitFields(checker, value);
  if (checker.mistake()) return std::unexpected(*checker.mistake());
  return Unit{};
}

}  // namespace carma::base

// Converts values with fields (base/fields.h) to and from JSON objects. Include only in .cc files.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/json.h"
#include "base/time.h"
#include "base/words.h"

namespace carma::base {

// How an empty optional is written to JSON.
enum class Absent { kNull, kLeftOut };
// What to do with unknown fields in an object.
enum class Unknown { kRefused, kPassedOver };

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
// An object whose keys are data rather than field names.
template <class T>
inline constexpr bool kIsDictionary = false;
template <class T>
inline constexpr bool kIsDictionary<std::map<std::string, T>> = true;
template <class T>
inline constexpr bool kIsDictionary<std::vector<std::pair<std::string, T>>> = true;

inline bool InSeconds(std::string_view name) {
  return name.ends_with("_s");
}

// ---- writing ----

class FieldWriter {
 public:
  FieldWriter(Json& json, Absent absent) : json_(&json), absent_(absent) {}

  template <class Value>
  void operator()(const char* name, const Value& value, const char* = "",
                  const FieldRule& rule = {}) {
    if (rule.unless_empty && Empty(value)) return;
    if constexpr (kIsOptional<Value>) {
      if (!value && absent_ == Absent::kLeftOut) return;
      Put(name, value ? Written(name, *value) : Json(nullptr));
    } else {
      Put(name, Written(name, value));
    }
  }

 private:
  template <class Value>
  static bool Empty(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
      return value == 0;
    } else if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else {
      return false;
    }
  }

  template <class Value>
  Json Written(const char* name, const Value& value) const {
    if constexpr (HasFields<Value>) {
      Json json = Json::object();
      FieldWriter part(json, absent_);
      Value::VisitFields(part, value);
      return json;
    } else if constexpr (std::is_same_v<Value, Time>) {
      return ToMs(value);
    } else if constexpr (std::is_same_v<Value, Duration>) {
      return InSeconds(name) ? Json(Seconds(value)) : Json(value.count());
    } else if constexpr (HasWords<Value>) {
      return WordOf(value);
    } else if constexpr (std::is_enum_v<Value>) {
      return static_cast<std::uint64_t>(value);
    } else if constexpr (kIsDictionary<Value>) {
      Json json = Json::object();
      for (const auto& [key, each] : value) json[key] = Written(name, each);
      return json;
    } else if constexpr (kIsList<Value>) {
      Json json = Json::array();
      for (const auto& each : value) json.push_back(Written(name, each));
      return json;
    } else {
      return value;
    }
  }

  void Put(const char* name, Json value);  // not inline, so it is not repeated for each type

  Json* json_;
  Absent absent_;
};

template <HasFields T>
Json FieldsToJson(const T& value, Absent absent) {
  Json json = Json::object();
  FieldWriter writer(json, absent);
  T::VisitFields(writer, value);
  return json;
}

// ---- reading ----

// Reads fields through a JsonReader, which records the first error. A field that is absent or null
// keeps its value. Lists and dictionaries that are present are replaced.
class FieldReader {
 public:
  FieldReader(JsonReader& in, Unknown unknown) : in_(&in), unknown_(unknown) {}

  template <class Value>
  void operator()(const char* name, Value& value, const char* = "", const FieldRule& rule = {}) {
    if (in_->Has(name)) {
      Read(name, value, rule);
    } else if (rule.required) {
      in_->Complain(name, Expected(rule, "a value"));
    }
  }

 private:
  static std::string Expected(const FieldRule& rule, std::string usual) {
    return rule.expected.empty() ? std::move(usual) : std::string(rule.expected);
  }

  template <class Value>
  void Read(const char* name, Value& value, const FieldRule& rule) {
    if constexpr (kIsOptional<Value>) {
      typename Value::value_type read{};
      Read(name, read, rule);
      if (!in_->error()) value = std::move(read);
    } else if constexpr (HasFields<Value>) {
      Part(*in_->Raw(name), name, value);
    } else if constexpr (std::is_same_v<Value, Time>) {
      std::int64_t ms = 0;
      in_->Get(name, ms, rule.low, rule.high);
      value = FromMs(ms);
    } else if constexpr (std::is_same_v<Value, Duration>) {
      ReadSpan(name, value, rule);
    } else if constexpr (HasWords<Value>) {
      std::string word;
      in_->Get(name, word);
      const std::optional<Value> known = FromWord<Value>(word);
      if (!known) return in_->Complain(name, Expected(rule, AllWords<Value>()));
      value = *known;
    } else if constexpr (std::is_same_v<Value, bool>) {
      in_->Get(name, value);
    } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
      ReadWhole(name, value, rule);
    } else if constexpr (std::is_same_v<Value, double>) {
      in_->Get(name, value, rule.least, rule.most);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      in_->Get(name, value, rule.max_bytes);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      in_->Get(name, value, rule.max_items, rule.max_bytes);
    } else if constexpr (kIsDictionary<Value>) {
      ReadDictionary(name, value, rule);
    } else {
      ReadList(name, value, rule);
    }
  }

  template <class Value>
  void ReadWhole(const char* name, Value& value, const FieldRule& rule) {
    constexpr bool kSmall = sizeof(Value) < sizeof(std::int64_t);
    constexpr bool kSigned = std::is_signed_v<Value>;
    constexpr std::int64_t kLow = !kSigned ? 0 : kSmall ? INT32_MIN : INT64_MIN;
    constexpr std::int64_t kHigh = !kSmall ? INT64_MAX : kSigned ? INT32_MAX : UINT32_MAX;
    std::int64_t read = 0;
    if (in_->Get(name, read, std::max(rule.low, kLow), std::min(rule.high, kHigh)))
      value = static_cast<Value>(read);
  }

  void ReadSpan(const char* name, Duration& value, const FieldRule& rule);

  template <class Value>
  void ReadDictionary(const char* name, Value& value, const FieldRule& rule) {
    using Each = std::remove_cvref_t<decltype(value.begin()->second)>;
    constexpr bool kTexts = std::is_same_v<Each, std::string>;
    const Json& json = *in_->Raw(name);
    if (!json.is_object() || json.size() > rule.max_items)
      return in_->Complain(name, kTexts ? "an object of strings" : "an object of numbers");
    value.clear();
    for (const auto& [key, each] : json.items()) {
      if (kTexts ? !each.is_string() : !each.is_number_integer())
        return in_->Complain(name, kTexts ? "strings as values" : "an object of numbers");
      value.insert(value.end(), {key, each.template get<Each>()});
    }
  }

  template <class Each>
  void ReadList(const char* name, std::vector<Each>& list, const FieldRule& rule) {
    const Json& json = *in_->Raw(name);
    if (!json.is_array() || json.size() > rule.max_items)
      return in_->Complain(name, "a list of at most " + std::to_string(rule.max_items));
    list.clear();
    for (const Json& each : json) {
      if constexpr (HasFields<Each>) {
        const std::string place = std::string(name) + "/" + std::to_string(list.size());
        Part(each, place, list.emplace_back());
      } else if (std::is_integral_v<Each> ? each.is_number_integer() : each.is_number()) {
        list.push_back(each.get<Each>());
      } else {
        return in_->Complain(name, "a list of numbers");
      }
    }
  }

  template <class Value>
  void Part(const Json& json, const std::string& place, Value& value) {
    JsonReader part(json, in_->pointer() + "/" + place);
    FieldReader reader(part, unknown_);
    Value::VisitFields(reader, value);
    if (unknown_ == Unknown::kRefused) part.NoOthers();
    if (part.error()) in_->Take(*part.error());
  }

  JsonReader* in_;
  Unknown unknown_;
};

// Reads into `value`. Fields that are absent keep their values. pointer: the position of the object
// in its document. Returns kInvalid with a JSON pointer if a field is invalid.
template <HasFields T>
Result<T> FieldsFromJson(const Json& json, const std::string& pointer, Unknown unknown,
                         T value = {}) {
  JsonReader in(json, pointer);
  FieldReader reader(in, unknown);
  T::VisitFields(reader, value);
  if (unknown == Unknown::kRefused) in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  return value;
}

}  // namespace carma::base

// A type lists its fields once, in VisitFields. JSON conversion, the API's description, checks and
// columns all use this list. For example:
//
//   struct Sample {
//     std::int64_t used_mib = 0;
//     std::optional<base::Duration> age;
//
//     static void VisitFields(auto& field, auto& sample) {
//       field("used_mib", sample.used_mib, "Memory used by all processes.", {.low = 0});
//       field("age_s", sample.age, "Time since it was taken.");
//     }
//   };
//
// `sample` may be const, and its type may be derived from Sample. The suffix of a time's name gives
// its unit: "_s" for a number of seconds, "_ms" for whole milliseconds. The text appears in the
// API's description; omit it if the name is clear enough. base/test_fields.h finds forgotten
// members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace carma::base {

// Which values of a field are allowed, and how JSON represents the field.
struct FieldRule {
  // Limits for whole numbers and time spans (in milliseconds). The type's limits also apply.
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  // Limits for all other numbers.
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  std::size_t max_bytes = 1 << 20;  // of a string, or of each string in a list
  std::size_t max_items = 100'000;  // of a list
  bool (*fits)(std::string_view) =
      nullptr;                     // additional rule for a string, or for each string in a list
  std::string_view words = {};     // allowed strings, for the API's description: "idle,mix,alloc"
  bool required = false;           // the field must be present
  bool unless_empty = false;       // zero or an empty list is not written
  std::string_view expected = {};  // for messages, if the limits are not clear enough
};

// FieldRule::fits for the strings that a function can parse: {.fits = Parses<ParseContainer>}.
template <auto kParse>
bool Parses(std::string_view text) {
  return static_cast<bool>(kParse(text));
}

struct AnyVisitor {
  template <class Value>
  void operator()(const char*, Value&, const char* = "", const FieldRule& = {}) {}
};

template <class T>
concept HasFields = requires(T& value, AnyVisitor& visitor) {
  T::VisitFields(visitor, value);
};

}  // namespace carma::base

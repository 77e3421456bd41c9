// One list of a type's fields, read by everything that goes through all of them: JSON in both
// directions, the API's description, checks, columns. A type lists its fields once:
//
//   struct Sample {
//     std::int64_t used_mib = 0;
//     std::optional<base::Duration> age;
//
//     template <class Visitor, class Self>  // Self: the type or one made from it, const or not
//     static void VisitFields(Visitor& field, Self& sample) {
//       field("used_mib", sample.used_mib, "Memory in use by everybody.", {.low = 0});
//       field("age_s", sample.age, "Since it was taken.");
//     }
//   };
//
// The name tells the unit of a time: "_s" is a number of seconds, "_ms" whole milliseconds. The
// text is for those who read the API's description; it may be left out where the name says it all.
// base/test_fields.h finds a member that was forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace carma::base {

// What a field's value may be, and how it stands in JSON.
struct FieldRule {
  // Whole numbers, and spans in milliseconds. The type's own limits hold besides.
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  // Other numbers.
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  std::size_t max_bytes = 1 << 20;           // of a text, or of each text in a list
  std::size_t max_items = 100'000;           // of a list
  bool (*fits)(std::string_view) = nullptr;  // what else a text must be, or each in a list
  std::string_view words = {};               // the texts it may be, "idle,mix,alloc"; for people
  bool required = false;                     // absent is a mistake
  bool unless_empty = false;       // zero and an empty list mean none, and are not written
  std::string_view expected = {};  // for messages, where limits do not say it
};

struct AnyVisitor {
  template <class Value>
  void operator()(const char*, Value&, const char* = "", const FieldRule& = {}) {}
};

template <class T>
concept HasFields = requires(T& value, AnyVisitor& visitor) {
  T::VisitFields(visitor, value);
};

}  // namespace carma::base

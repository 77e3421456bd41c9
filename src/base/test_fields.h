// Lets tests check that a type's list of fields contains every member.
#pragma once

#include <set>
#include <string>

#include "base/fields.h"

namespace carma::base {

struct AnyMember {
  template <class T>
  operator T() const;  // never defined
};

template <class T, class... Known>
constexpr std::size_t MemberCountFrom() {
  if constexpr (requires { T{Known{}..., AnyMember{}}; }) {
    return MemberCountFrom<T, Known..., AnyMember>();
  } else {
    return sizeof...(Known);
  }
}

// The number of members in a plain struct. A base class counts as one member.
template <class T>
constexpr std::size_t MemberCount() {
  return MemberCountFrom<T>();
}

class FieldNames {
 public:
  template <class Value>
  void operator()(const char* name, const Value&, const char* = "", const FieldRule& = {}) {
    names.insert(name);
  }
  std::set<std::string> names;
};

template <HasFields T>
std::set<std::string> NamesOf() {
  FieldNames visitor;
  const T value{};
  T::VisitFields(visitor, value);
  return visitor.names;
}

// True if the list has exactly one field per member of the type.
template <HasFields T>
bool NamesEveryMember() {
  return NamesOf<T>().size() == MemberCount<T>();
}

}  // namespace carma::base

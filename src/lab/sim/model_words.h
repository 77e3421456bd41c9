// The simulation's options by name, for `carma simulate --model`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/words.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// Stores the value of an optional or a Result. Returns false if it has none.
template <class Target, class Maybe>
bool SetIf(Target& target, Maybe value) {
  if (!value) return false;
  target = *std::move(value);
  return true;
}
// These parse a value into `target` and return false if it is invalid or outside low..high.
bool Set(double& target, std::string_view value, double low, double high);
bool Set(int& target, std::string_view value, int low, int high);
bool Set(std::int64_t& target_mib, std::string_view value);  // a size, such as "4G"
bool Set(base::Duration& target, std::string_view value);
bool Set(bool& target, std::string_view value);  // "true" or "false"
template <base::HasWords Enum>
bool Set(Enum& target, std::string_view value) {
  return SetIf(target, base::FromWord<Enum>(value));
}

struct ModelWord {
  std::string_view name;     // "memory_ramp"
  std::string_view type;     // the expected form, such as "time span"
  std::string_view meaning;  // includes the default
  // Returns false if the value does not match `type`. Simulate() checks how the options combine.
  bool (*set)(RunOptions& options, std::string_view value);
};
std::span<const ModelWord> ModelWords();

// Returns kInvalid "memry: unknown keyword" or "memory_ramp: expected time span, not 'x'".
Result<Unit> SetModelWord(RunOptions& options, std::string_view name, std::string_view value);

}  // namespace carma::sim

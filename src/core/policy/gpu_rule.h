// An administrator's rule about a task and a GPU: a small expression over named quantities, such as
// "free_mib - 2000 * tasks" or "own_tasks < 2". Parsed once with the configuration; evaluated at
// every decision without allocating memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::core {

struct GpuView;
struct Need;
struct PolicyConfig;

// The policy, task and GPU for which a rule is evaluated.
struct RuleAsked {
  const PolicyConfig& config;
  const Need& need;
  const GpuView& gpu;
};
// A name that rules may use. A test checks that docs/server/policies.md lists the same names.
struct RuleQuantity {
  std::string_view name;
  std::string_view meaning;  // a description with its unit
  double (*of)(const RuleAsked& at);
};
std::span<const RuleQuantity> RuleQuantities();

// Operators, from lowest to highest precedence: or, and, not, comparisons (< <= > >= == !=), + and
// -, * and /, unary -. Operands are numbers, names, parentheses, min(a, b), max(a, b) and
// if(condition, then, else). A condition yields 1 or 0; any value other than 0 counts as true.
// Division by 0 and non-finite results give 0.
class GpuRule {
 public:
  static constexpr std::size_t kMaxBytes = 400;
  static constexpr int kMaxDepth = 32;  // maximum depth of the value stack and of parentheses

  // Returns kInvalid if the rule is invalid, with the position ("at character 12") and what was
  // expected.
  static Result<GpuRule> Parse(std::string_view text);

  double Value(const PolicyConfig& config, const Need& need, const GpuView& gpu) const;
  bool Holds(const PolicyConfig& config, const Need& need, const GpuView& gpu) const {
    return Value(config, need, gpu) != 0;
  }
  // The text of the rule as the administrator wrote it.
  const std::string& text() const { return text_; }
  friend bool operator==(const GpuRule& a, const GpuRule& b) { return a.text_ == b.text_; }

 private:
  friend class GpuRuleParser;
  enum class Op : std::uint8_t {
    kNumber,    // pushes a constant
    kQuantity,  // pushes a quantity of the GPU or the task
    kNegate,
    kNot,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kLess,
    kAtMost,
    kMore,
    kAtLeast,
    kEqual,
    kUnequal,
    kAnd,
    kOr,
    kMin,
    kMax,
    kIf,
  };
  struct Step {
    Op op = Op::kNumber;
    double number = 0;
    std::size_t quantity = 0;  // index in RuleQuantities
  };
  std::string text_;
  std::vector<Step> steps_;  // in postfix order
};

}  // namespace carma::core

#include "core/policy/gpu_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "core/policy/policy.h"

namespace carma::core {
namespace {

ThroughputEstimate With(const RuleAsked& at) {
  const Neighbour newcomer = OnPart(at.need.load, at.gpu);
  return ThroughputOf(at.gpu.residents, &newcomer,
                      SaturationOf({}, SharingOn(at.config, at.gpu.mig)));
}

constexpr double ToDouble(auto number) {
  return static_cast<double>(number);
}

constexpr RuleQuantity kQuantities[] = {
    {"free_mib", "GPU memory not promised to any task, MiB",
     [](const RuleAsked& at) { return ToDouble(at.gpu.free_mib); }},
    {"total_mib", "total GPU memory, MiB",
     [](const RuleAsked& at) { return ToDouble(at.gpu.total_mib); }},
    {"promised_mib", "memory promised to the tasks on the GPU, MiB",
     [](const RuleAsked& at) { return ToDouble(at.gpu.promised_mib); }},
    {"foreign_mib", "memory used on the GPU by processes that CARMA did not start, MiB",
     [](const RuleAsked& at) { return ToDouble(at.gpu.foreign_mib); }},
    {"activity",
     "mean SM activity over the window, 0 to 1; 0 on an idle GPU; if not reported, the share of "
     "time in which kernels ran, or 1 if unknown",
     [](const RuleAsked& at) { return at.gpu.Activity(); }},
    {"tasks", "tasks on the GPU, including those being started",
     [](const RuleAsked& at) { return ToDouble(at.gpu.tasks); }},
    {"own_tasks", "tasks on the GPU that belong to the same user as this task",
     [](const RuleAsked& at) { return ToDouble(std::ranges::count(at.gpu.users, at.need.uid)); }},
    {"foreign_processes", "processes on the GPU that CARMA did not start",
     [](const RuleAsked& at) { return ToDouble(at.gpu.foreign_processes); }},
    {"gpu", "GPU number", [](const RuleAsked& at) { return ToDouble(Number(at.gpu.index)); }},
    {"mig", "1 for a MIG instance, else 0",
     [](const RuleAsked& at) { return at.gpu.mig ? 1.0 : 0.0; }},
    {"pace", "GPU speed relative to the server's fastest GPU, at most 1",
     [](const RuleAsked& at) { return at.gpu.pace; }},
    {"work", "predicted total throughput of all tasks on the GPU; 1 is a full GPU",
     [](const RuleAsked& at) { return at.gpu.compute * at.gpu.delivered; }},
    {"memory_mib", "memory that the task requests per GPU, MiB; 0 if unknown",
     [](const RuleAsked& at) {
       return ToDouble(std::max(at.need.memory_mib.value_or(0), at.need.retry_free_mib));
     }},
    {"gpus", "GPUs that the task needs",
     [](const RuleAsked& at) { return ToDouble(at.need.gpus); }},
    {"sm_share", "share of the SMs that the task requests (--sm-share); 0 if none",
     [](const RuleAsked& at) { return at.need.sm_share.value_or(0); }},
    {"own_activity", "predicted SM activity of the task when running alone, 0 to 1",
     [](const RuleAsked& at) { return at.need.load.load.sm_active; }},
    {"run_time_s", "predicted run time of the task alone, seconds; 0 if unknown",
     [](const RuleAsked& at) { return base::Seconds(at.need.alone.value_or(Duration{0})); }},
    {"waited_s", "seconds since the task was submitted",
     [](const RuleAsked& at) { return base::Seconds(at.need.waited); }},
    {"gain", "how much the task would add to `work`",
     [](const RuleAsked& at) { return at.gpu.compute * (With(at).delivered - at.gpu.delivered); }},
    {"slowdown", "predicted run time of the task on the GPU, relative to running alone",
     [](const RuleAsked& at) { return With(at).newcomer; }},
    {"slowest", "the highest `slowdown` of any task on the GPU",
     [](const RuleAsked& at) { return With(at).slowest; }},
};

bool StartsName(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool IsOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool IsOfNumber(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
}

}  // namespace

std::span<const RuleQuantity> RuleQuantities() {
  return kQuantities;
}

// A recursive-descent parser with one function per precedence level.
class GpuRuleParser {
 public:
  explicit GpuRuleParser(std::string_view text) : text_(text) {}

  Result<GpuRule> Parse() {
    if (text_.size() > GpuRule::kMaxBytes)
      return Invalid("longer than {} bytes", GpuRule::kMaxBytes);
    if (Result<Unit> read = Either(); !read) return std::unexpected(read.error());
    if (!Rest().empty()) return Expected("an operator or the end of the expression");
    rule_.text_ = std::string(text_);
    return std::move(rule_);
  }

 private:
  using Op = GpuRule::Op;
  using Reader = Result<Unit> (GpuRuleParser::*)();
  struct Sign {
    std::string_view text;
    Op op;
  };

  std::string_view Rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  std::unexpected<base::Error> Expected(std::string_view what) {
    const std::string_view rest = Rest();
    const std::string found =
        rest.empty() ? "the end of the expression" : fmt::format("'{}'", base::Printable(rest, 20));
    return Invalid("at character {}: expected {}, not {}", at_ + 1, what, found);
  }
  // The next name; empty if the next token is not a name.
  std::string_view Name() {
    const std::string_view rest = Rest();
    if (rest.empty() || !StartsName(rest.front())) return {};
    const auto end = std::ranges::find_if_not(rest, IsOfName);
    return rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  }
  bool Take(std::string_view sign) {
    const bool word = StartsName(sign.front());
    if (word ? Name() != sign : !Rest().starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  Result<Unit> TakeOr(std::string_view sign) {
    if (Take(sign)) return Unit{};
    return Expected(fmt::format("'{}'", sign));
  }

  Result<Unit> Push(GpuRule::Step step) {
    rule_.steps_.push_back(step);
    if (++waiting_ <= GpuRule::kMaxDepth) return Unit{};
    return Invalid("at character {}: more than {} nested values", at_ + 1, GpuRule::kMaxDepth);
  }
  void Apply(Op op, int operands) {
    rule_.steps_.push_back({.op = op});
    waiting_ -= operands - 1;
  }

  // Parses operands and operators of one precedence level, from left to right.
  template <std::size_t kCount>
  Result<Unit> Chain(Reader operand, const std::array<Sign, kCount>& signs) {
    if (Result<Unit> read = (this->*operand)(); !read) return read;
    while (true) {
      const auto sign =
          std::ranges::find_if(signs, [this](const Sign& each) { return Take(each.text); });
      if (sign == signs.end()) return Unit{};
      if (Result<Unit> read = (this->*operand)(); !read) return read;
      Apply(sign->op, 2);
    }
  }

  Result<Unit> Either() {
    if (++depth_ > GpuRule::kMaxDepth) return Expected("fewer parentheses");
    Result<Unit> read = Chain(&GpuRuleParser::Both, std::array{Sign{"or", Op::kOr}});
    --depth_;
    return read;
  }
  Result<Unit> Both() { return Chain(&GpuRuleParser::Negation, std::array{Sign{"and", Op::kAnd}}); }
  Result<Unit> Negation() {
    bool any = false, odd = false;
    for (; Take("not"); odd = !odd) any = true;
    if (Result<Unit> read = Comparison(); !read) return read;
    if (any) Apply(Op::kNot, 1);
    if (any && !odd) Apply(Op::kNot, 1);
    return Unit{};
  }
  Result<Unit> Comparison() {
    // The longer operators come first, so that "<=" is not read as "<".
    return Chain(&GpuRuleParser::Sum, std::array{Sign{"<=", Op::kAtMost}, Sign{">=", Op::kAtLeast},
                                                 Sign{"==", Op::kEqual}, Sign{"!=", Op::kUnequal},
                                                 Sign{"<", Op::kLess}, Sign{">", Op::kMore}});
  }
  Result<Unit> Sum() {
    return Chain(&GpuRuleParser::Product,
                 std::array{Sign{"+", Op::kAdd}, Sign{"-", Op::kSubtract}});
  }
  Result<Unit> Product() {
    return Chain(&GpuRuleParser::Signed,
                 std::array{Sign{"*", Op::kMultiply}, Sign{"/", Op::kDivide}});
  }
  Result<Unit> Signed() {
    bool negative = false;
    while (Take("-")) negative = !negative;
    if (Result<Unit> read = Primary(); !read) return read;
    if (negative) Apply(Op::kNegate, 1);
    return Unit{};
  }
  Result<Unit> Primary() {
    if (Take("(")) {
      if (Result<Unit> read = Either(); !read) return read;
      return TakeOr(")");
    }
    const std::string_view rest = Rest();
    if (!rest.empty() && IsOfNumber(rest.front())) return TakeNumber();
    const std::string_view name = Name();
    if (name.empty()) return Expected("a number, a name or '('");
    if (name == "min") return Call(name, Op::kMin, 2);
    if (name == "max") return Call(name, Op::kMax, 2);
    if (name == "if") return Call(name, Op::kIf, 3);
    const auto* known = std::ranges::find(kQuantities, name, &RuleQuantity::name);
    if (known == std::end(kQuantities))
      return Expected("a quantity listed in docs/server/policies.md");
    at_ += name.size();
    return Push({.op = Op::kQuantity,
                 .quantity = static_cast<std::size_t>(known - std::begin(kQuantities))});
  }
  Result<Unit> TakeNumber() {
    const std::string_view rest = Rest();
    const auto end = std::ranges::find_if_not(rest, IsOfNumber);
    const std::string_view digits = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    const std::optional<double> number = base::ParseDouble(digits);
    if (!number) return Expected("a number");
    at_ += digits.size();
    return Push({.op = Op::kNumber, .number = *number});
  }
  Result<Unit> Call(std::string_view name, Op op, int operands) {
    at_ += name.size();
    for (int i = 0; i < operands; ++i) {
      if (Result<Unit> read = TakeOr(i == 0 ? "(" : ","); !read) return read;
      if (Result<Unit> read = Either(); !read) return read;
    }
    Apply(op, operands);
    return TakeOr(")");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int waiting_ = 0;
  GpuRule rule_;
};

Result<GpuRule> GpuRule::Parse(std::string_view text) {
  return GpuRuleParser(text).Parse();
}

namespace {

// Applies an operator to up to three operands. Op: GpuRule::Op.
template <class Op>
double Applied(Op op, double a, double b, double c) {
  switch (op) {
    case Op::kNegate:
      return -a;
    case Op::kNot:
      return a == 0;
    case Op::kAdd:
      return a + b;
    case Op::kSubtract:
      return a - b;
    case Op::kMultiply:
      return a * b;
    case Op::kDivide:
      return a / b;
    case Op::kLess:
      return a < b;
    case Op::kAtMost:
      return a <= b;
    case Op::kMore:
      return a > b;
    case Op::kAtLeast:
      return a >= b;
    case Op::kEqual:
      return a == b;
    case Op::kUnequal:
      return a != b;
    case Op::kAnd:
      return a != 0 && b != 0;
    case Op::kOr:
      return a != 0 || b != 0;
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kIf:
      return a != 0 ? b : c;
    case Op::kNumber:
    case Op::kQuantity:
      break;
  }
  return 0;
}

}  // namespace

double GpuRule::Value(const PolicyConfig& config, const Need& need, const GpuView& gpu) const {
  std::array<double, kMaxDepth + 1> values;
  std::size_t n = 0;
  for (const Step& step : steps_) {
    if (step.op == Op::kNumber) {
      values[n++] = step.number;
      continue;
    }
    if (step.op == Op::kQuantity) {
      values[n++] = kQuantities[step.quantity].of({config, need, gpu});
      continue;
    }
    const std::size_t operands = step.op == Op::kIf                              ? 3
                                 : step.op == Op::kNot || step.op == Op::kNegate ? 1
                                                                                 : 2;
    n -= operands;
    const double b = operands > 1 ? values[n + 1] : 0;
    const double c = operands > 2 ? values[n + 2] : 0;
    const double value = Applied(step.op, values[n], b, c);
    values[n++] = std::isfinite(value) ? value : 0;
  }
  return n == 0 ? 0 : values[0];
}

}  // namespace carma::core

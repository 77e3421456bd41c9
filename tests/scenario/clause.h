// Parses the words and options of one scenario clause and records the first error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tests/scenario/scenario.h"

namespace carma::sim {

// Reads a span such as "95s", "1500ms", "10m", "2h" or "1.5s".
std::optional<base::Duration> ParseScenarioSpan(std::string_view text);
// Converts "t12" to 12.
std::optional<core::TaskId> ParseTaskName(std::string_view text);

// Largest values allowed in a scenario.
inline constexpr std::int64_t kMaxMib = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxCount = 1'000'000'000;

class ClauseReader {
 public:
  explicit ClauseReader(const Clause& clause) : clause_(&clause) {}
  bool Flag(std::string_view word) const;  // whether the clause has this word without a value
  bool Has(const std::string& option) const { return clause_->options.contains(option); }
  // Returns the n-th word of the clause, not counting options; empty if there is none.
  std::string_view Word(std::size_t n) const;
  core::TaskId Task();                // named by the first word
  std::vector<core::TaskId> Tasks();  // named by the first word, which may be a range "t1..t9"
  core::GpuIndex Gpu(std::size_t gpus);
  std::vector<core::GpuIndex> GpuList(std::size_t gpus);
  std::int64_t Int(const std::string& option, std::int64_t low, std::int64_t high,
                   std::int64_t absent);
  std::optional<std::int64_t> OptionalInt(const std::string& option, std::int64_t low,
                                          std::int64_t high);
  // Fraction() and Span() return nothing if the option is absent or "none".
  std::optional<double> Fraction(const std::string& option);
  std::optional<base::Duration> Span(const std::string& option);
  bool YesNo(const std::string& option, bool absent);
  std::string Text(const std::string& option) const;
  std::vector<core::TaskId> TaskList(const std::string& option);

  void Complain(std::string what);
  const std::optional<std::string>& error() const { return error_; }

 private:
  const Clause* clause_;
  std::optional<std::string> error_;
};

}  // namespace carma::sim

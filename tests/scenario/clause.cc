#include "tests/scenario/clause.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace carma::sim {
namespace {

constexpr std::int64_t kMaxTasksOfRange = 200'000;
constexpr std::int64_t kMaxTaskNumber = 1'000'000'000;

}  // namespace

std::optional<base::Duration> ParseScenarioSpan(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1.0}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}};
  constexpr double kMaxMs = 3.2e10;  // about a year
  for (const auto& [unit, ms] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::optional<double> number =
        base::ParseDouble(text.substr(0, text.size() - unit.size()));
    if (!number || *number < 0 || *number * ms > kMaxMs) return std::nullopt;
    return base::Duration(std::llround(*number * ms));
  }
  return std::nullopt;
}

std::optional<core::TaskId> ParseTaskName(std::string_view text) {
  if (!text.starts_with('t')) return std::nullopt;
  const std::optional<std::int64_t> number = base::ParseInt(text.substr(1));
  if (!number || *number < 1 || *number > kMaxTaskNumber) return std::nullopt;
  return core::TaskId{static_cast<std::uint64_t>(*number)};
}

void ClauseReader::Complain(std::string what) {
  if (!error_) error_ = "'" + clause_->verb + "': " + std::move(what);
}

bool ClauseReader::Flag(std::string_view word) const {
  return std::find(clause_->words.begin(), clause_->words.end(), word) != clause_->words.end();
}

std::string_view ClauseReader::Word(std::size_t n) const {
  return n < clause_->words.size() ? std::string_view(clause_->words[n]) : std::string_view();
}

core::TaskId ClauseReader::Task() {
  const std::optional<core::TaskId> id = ParseTaskName(Word(0));
  if (!id) Complain("expected a task like t1, got '" + std::string(Word(0)) + "'");
  return id.value_or(core::TaskId{});
}

std::vector<core::TaskId> ClauseReader::Tasks() {
  const std::string_view word = Word(0);
  const std::size_t dots = word.find("..");
  if (dots == std::string_view::npos) return {Task()};
  const std::optional<core::TaskId> first = ParseTaskName(word.substr(0, dots));
  const std::optional<core::TaskId> last = ParseTaskName(word.substr(dots + 2));
  if (!first || !last || *last < *first ||
      static_cast<std::int64_t>(Number(*last) - Number(*first)) >= kMaxTasksOfRange) {
    Complain("expected a range like t1..t9, got '" + std::string(word) + "'");
    return {};
  }
  std::vector<core::TaskId> tasks;
  for (std::uint64_t id = Number(*first); id <= Number(*last); ++id) {
    tasks.push_back(core::TaskId{id});
  }
  return tasks;
}

core::GpuIndex ClauseReader::Gpu(std::size_t gpus) {
  const std::vector<core::GpuIndex> list = GpuList(gpus);
  if (list.size() != 1) Complain("expected gpu=N");
  return list.empty() ? core::GpuIndex{} : list.front();
}

std::vector<core::GpuIndex> ClauseReader::GpuList(std::size_t gpus) {
  std::vector<core::GpuIndex> list;
  if (!Has("gpu")) return list;
  for (const std::string_view piece : base::Split(clause_->options.at("gpu"), ',')) {
    const std::optional<std::int64_t> number = base::ParseInt(piece);
    if (!number || *number < 0 || *number >= static_cast<std::int64_t>(gpus)) {
      Complain("gpu=" + clause_->options.at("gpu") + ": no such GPU");
      return {};
    }
    list.push_back(core::GpuIndex{static_cast<std::uint32_t>(*number)});
  }
  return list;
}

std::optional<std::int64_t> ClauseReader::OptionalInt(const std::string& option, std::int64_t low,
                                                      std::int64_t high) {
  if (!Has(option)) return std::nullopt;
  const std::optional<std::int64_t> number = base::ParseInt(clause_->options.at(option));
  if (!number || *number < low || *number > high) {
    Complain(option + "=" + clause_->options.at(option) + ": expected a whole number from " +
             std::to_string(low) + " to " + std::to_string(high));
    return std::nullopt;
  }
  return number;
}

std::int64_t ClauseReader::Int(const std::string& option, std::int64_t low, std::int64_t high,
                               std::int64_t absent) {
  return OptionalInt(option, low, high).value_or(absent);
}

std::optional<double> ClauseReader::Fraction(const std::string& option) {
  if (!Has(option) || clause_->options.at(option) == "none") return std::nullopt;
  const std::optional<double> number = base::ParseDouble(clause_->options.at(option));
  if (!number) Complain(option + ": expected a fraction or none");
  return number;
}

std::optional<base::Duration> ClauseReader::Span(const std::string& option) {
  if (!Has(option) || clause_->options.at(option) == "none") return std::nullopt;
  const std::optional<base::Duration> span = ParseScenarioSpan(clause_->options.at(option));
  if (!span) Complain(option + ": expected a time span like 90s, 1500ms, 10m, 2h");
  return span;
}

bool ClauseReader::YesNo(const std::string& option, bool absent) {
  if (!Has(option)) return absent;
  const std::string& text = clause_->options.at(option);
  if (text != "yes" && text != "no") Complain(option + ": expected yes or no");
  return text == "yes";
}

std::string ClauseReader::Text(const std::string& option) const {
  return Has(option) ? clause_->options.at(option) : "";
}

std::vector<core::TaskId> ClauseReader::TaskList(const std::string& option) {
  std::vector<core::TaskId> list;
  if (!Has(option)) return list;
  for (const std::string_view piece : base::Split(clause_->options.at(option), ',')) {
    const std::optional<core::TaskId> id = ParseTaskName(piece);
    if (!id) Complain(option + ": expected tasks like t1,t2");
    if (id) list.push_back(*id);
  }
  return list;
}

}  // namespace carma::sim

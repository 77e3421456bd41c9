#include "task/describe/sweep.h"

#include "base/csv.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::task {
namespace {

std::unexpected<base::Error> BadName(std::string_view name) {
  return Invalid("'{}': expected a name of letters, digits and _", base::Printable(name, 60));
}

// Returns true if the value looks like "1..6", which other programs read as a range.
bool IsRange(std::string_view value) {
  const std::size_t dots = value.find("..");
  return dots != value.npos && base::ParseInt(value.substr(0, dots)) &&
         base::ParseInt(value.substr(dots + 2));
}

std::string Replaced(const std::string& text, const Parameters& parameters) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
    const auto value = end == std::string::npos ? parameters.end()
                                                : parameters.find(text.substr(i + 1, end - i - 1));
    if (value == parameters.end()) {
      result += text[i++];
    } else {
      result += value->second;
      i = end + 1;
    }
  }
  return result;
}

}  // namespace

Result<std::pair<std::string, std::vector<std::string>>> ParseParameter(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == std::string_view::npos || equals + 1 == text.size())
    return Invalid("expected NAME=VALUE,VALUE… such as lr=0.1,0.01");
  if (!IsParameterName(name)) return BadName(name);
  std::vector<std::string> values;
  for (const std::string_view value : base::Split(text.substr(equals + 1), ','))
    values.emplace_back(value);
  return std::pair(std::string(name), std::move(values));
}

Result<std::vector<Parameters>> ParseSweepTable(std::string_view text, std::string_view where) {
  const base::CsvTable table = CARMA_TRY(base::CsvTable::Parse(text, {}, kMaxArrayTasks, where));
  for (const std::string& name : table.header()) {
    if (!IsParameterName(name)) return base::Wrap(BadName(name).error(), std::string(where));
  }
  std::vector<Parameters> rows;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const base::CsvRow row = table.Row(i);
    Parameters& parameters = rows.emplace_back();
    for (const std::string& name : table.header()) parameters.emplace(name, row.Text(name));
  }
  if (rows.empty()) return Invalid(std::string(where) + ": expected at least one line of values");
  return rows;
}

Result<std::vector<Parameters>> Combinations(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& parameters,
    const std::vector<Parameters>& table) {
  std::vector<Parameters> all = table;
  if (all.empty()) all.emplace_back();
  for (const auto& [name, values] : parameters) {
    if (all.front().contains(name)) return Invalid("parameter {} is specified twice", name);
    if (values.size() == 1 && IsRange(values.front()))
      return Invalid(
          "--param {0}: expected values separated by commas, such as '{0}=1,2,3', not the range "
          "'{1}' (--array takes ranges)",
          name, base::Printable(values.front(), 40));
    if (all.size() * values.size() > kMaxArrayTasks)
      return Invalid("a sweep may have at most {} tasks", kMaxArrayTasks);
    std::vector<Parameters> more;
    more.reserve(all.size() * values.size());
    for (const Parameters& each : all) {
      for (const std::string& value : values) more.emplace_back(each).emplace(name, value);
    }
    all = std::move(more);
  }
  if (all.front().size() > kMaxParameters)
    return Invalid("more than {} parameters", kMaxParameters);
  return all;
}

void ApplyParameters(const Parameters& parameters, TaskSpec& spec) {
  spec.parameters = parameters;
  for (std::vector<std::string>* words : {&spec.command, &spec.script_args}) {
    for (std::string& word : *words) word = Replaced(word, parameters);
  }
  for (std::string* text : {&spec.name, &spec.stdout_path, &spec.stderr_path})
    *text = Replaced(*text, parameters);
}

}  // namespace carma::task

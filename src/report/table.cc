// Writes metrics as readable text tables.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "report/lines.h"
#include "report/report.h"

namespace carma::report {
namespace {

using Cells = std::vector<std::string>;

// The width on screen. Continuation bytes of UTF-8 characters do not count.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Formats lines of cells as columns. The first `left` columns are left-aligned, and the rest
// right-aligned.
std::string Align(const std::vector<Cells>& lines, std::size_t left = 1) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], Width(cells[i]));
  }
  std::string text;
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string room(widths[i] - Width(cells[i]), ' ');
      if (i > 0) line += "  ";
      line += i < left ? cells[i] + room : room + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// Removes columns that have nothing below their title.
void DropEmptyColumns(std::vector<Cells>& lines) {
  for (std::size_t column = lines.front().size(); column-- > 0;) {
    const bool empty = std::all_of(lines.begin() + 1, lines.end(),
                                   [&](const Cells& cells) { return cells[column].empty(); });
    if (!empty) continue;
    for (Cells& cells : lines) cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

std::int64_t CountOf(const Metrics& metrics, core::TaskState state) {
  for (const auto& [each, count] : metrics.tasks_by_state) {
    if (each == state) return count;
  }
  return 0;
}

// The line's name, the first case's value, and each further case's value and difference.
Cells LineCells(const Line& line, const std::vector<Case>& cases) {
  Cells cells{line.name};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::optional<Estimated> value = Over(cases[i], line);
    cells.push_back(value ? Text(line, *value) : "not reported");
    if (i > 0) cells.push_back(Difference(line, cases.front(), cases[i]));
  }
  return cells;
}

bool Reported(const Line& line, const std::vector<Case>& cases) {
  return std::ranges::any_of(cases, [&](const Case& each) { return Over(each, line).has_value(); });
}

// Adds a line for each bound, which shows how far each case is above it.
void AddBounds(const std::vector<Case>& cases, std::vector<Cells>& lines) {
  const Line& makespan = Lines().front();
  for (const std::string& name : BoundNames(cases)) {
    Cells cells{"  above bound: " + base::Printable(name, 40)};
    bool any = false;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::optional<double> bound_s = BoundOf(cases[i], name);
      const std::optional<Estimated> value = Over(cases[i], makespan);
      const bool above = bound_s && value && value->mean >= *bound_s;
      cells.push_back(above ? SpanText(*bound_s) + " " + AboveBound(*bound_s, *value) : "");
      if (i > 0) cells.emplace_back();
      any = any || above;
    }
    if (any) lines.push_back(std::move(cells));
  }
}

// Adds the task states that occur in any run.
void AddStates(const std::vector<Case>& cases, std::vector<Cells>& lines) {
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    const auto state = static_cast<core::TaskState>(i);
    Cells cells{"  " + std::string(core::TaskStateName(state))};
    bool occurs = false;
    for (std::size_t c = 0; c < cases.size(); ++c) {
      double sum = 0;
      for (const Metrics* each : cases[c].replays)
        sum += static_cast<double>(CountOf(*each, state));
      occurs = occurs || sum > 0;
      cells.push_back(CountText(sum / static_cast<double>(cases[c].replays.size())));
      if (c > 0) cells.emplace_back();
    }
    if (occurs) lines.push_back(std::move(cells));
  }
}

std::string Notes(std::span<const Metrics> runs, const std::vector<Case>& cases) {
  constexpr double kComplete = 0.95;
  std::string notes;
  for (const Metrics& m : runs) {
    if (m.gpus == 0 || m.gpu_coverage >= kComplete) continue;
    notes += fmt::format("note: {}GPU records cover {:.0f} % of the run\n",
                         m.label.empty() ? "" : base::Printable(m.label, 40) + ": ",
                         m.gpu_coverage * 100);
  }
  if (runs.size() > cases.size()) {
    notes +=
        "note: mean ± standard deviation over replays; a difference in brackets is within their "
        "noise\n";
  }
  return notes;
}

}  // namespace

std::string Compare(std::span<const Metrics> runs) {
  if (runs.empty()) return "";
  const std::vector<Case> cases = CasesOf(runs);
  std::vector<Cells> lines;
  const bool labelled = std::ranges::any_of(cases, [](const Case& c) { return !c.label.empty(); });
  if (labelled) {
    Cells head{""};
    for (std::size_t i = 0; i < cases.size(); ++i) {
      head.push_back(base::Printable(cases[i].label, 24));
      if (i > 0) head.emplace_back();
    }
    lines.push_back(std::move(head));
  }
  for (const Line& line : Lines()) {
    if (line.always || Reported(line, cases)) lines.push_back(LineCells(line, cases));
    if (&line == &Lines().front()) AddBounds(cases, lines);
  }
  AddStates(cases, lines);
  return Align(lines) + Notes(runs, cases);
}

std::string GroupTable(std::span<const Metrics> runs) {
  const auto span = [](const GroupMetrics& group, const Spread& of) {
    return group.executed == 0 && of.max == 0 ? "-" : SpanText(of.mean);
  };
  std::vector<Cells> lines{
      {"group", "run", "tasks", "waiting", "execution", "completion", "slowdown", "OOM crashes"}};
  const std::vector<Case> cases = CasesOf(runs);
  std::set<std::string> names;
  for (const Case& each : cases) {
    for (const GroupMetrics& group : each.replays.front()->groups) names.insert(group.name);
  }
  for (const std::string& name : names) {
    for (const Case& each : cases) {
      for (const GroupMetrics& group : each.replays.front()->groups) {
        if (group.name != name) continue;
        lines.push_back({base::Printable(name, 24), base::Printable(each.label, 24),
                         std::to_string(group.tasks), span(group, group.waiting),
                         span(group, group.execution), span(group, group.jct),
                         group.slowdown ? fmt::format("{:.2f}", group.slowdown->mean) : "",
                         std::to_string(group.oom_crashes)});
      }
    }
  }
  DropEmptyColumns(lines);
  // Left-aligned columns: the group and, if any run has a name, the run.
  const bool named = lines.front().size() > 1 && lines.front()[1] == "run";
  const std::size_t left = named ? 2 : 1;
  if (names.empty()) return "";
  return Align(lines, left) +
         (runs.size() > cases.size() ? "note: values of the first replay of each run\n" : "");
}

std::string ForecastTable(std::span<const Metrics> runs) {
  std::vector<Cells> lines{{"predicted", "by", "run", "tasks", "measured / predicted, median",
                            "mean", "95 %", "within the promise"}};
  for (const Case& each : CasesOf(runs)) {
    for (const ForecastMetrics& of : each.replays.front()->forecasts) {
      lines.push_back({base::Printable(of.what, 24), base::Printable(of.by, 24),
                       base::Printable(each.label, 24), std::to_string(of.tasks),
                       fmt::format("{:.2f}", of.ratio.median), fmt::format("{:.2f}", of.ratio.mean),
                       fmt::format("{:.2f}", of.ratio.p95),
                       of.promised > 0 ? fmt::format("{} of {}", of.kept, of.promised) : ""});
    }
  }
  if (lines.size() == 1) return "";
  DropEmptyColumns(lines);
  return Align(lines, lines.front()[2] == "run" ? 3 : 2);
}

}  // namespace carma::report

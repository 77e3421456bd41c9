// Metrics as text for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/metrics.h"

namespace carma::report {
namespace {

// One line of the tables.
struct Line {
  std::string name;
  std::optional<double> (*value)(const Metrics&);
  std::string (*text)(double);
};

std::string SpanText(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  return base::FormatSpan(base::Duration(std::llround(seconds * 1000)));
}
std::string WholeText(double value) {
  return fmt::format("{:.0f}", value);
}
std::string GibText(double mib) {
  return fmt::format("{:.1f} GiB", mib / 1024);
}
std::string PercentText(double fraction) {
  return fmt::format("{:.1f} %", fraction * 100);
}
std::string MegajouleText(double mj) {
  return mj < 1 ? fmt::format("{:.4f} MJ", mj) : fmt::format("{:.2f} MJ", mj);
}
std::string WattText(double w) {
  return fmt::format("{:.0f} W", w);
}

using Value = std::optional<double>;
const Line kLines[] = {
    {"trace total time", [](const Metrics& m) -> Value { return m.trace_total_s; }, SpanText},
    {"waiting, mean", [](const Metrics& m) -> Value { return m.waiting.mean; }, SpanText},
    {"waiting, 95 %", [](const Metrics& m) -> Value { return m.waiting.p95; }, SpanText},
    {"execution, mean", [](const Metrics& m) -> Value { return m.execution.mean; }, SpanText},
    {"completion (JCT), mean", [](const Metrics& m) -> Value { return m.jct.mean; }, SpanText},
    {"completion (JCT), 95 %", [](const Metrics& m) -> Value { return m.jct.p95; }, SpanText},
    {"GPU memory in use, mean", [](const Metrics& m) { return m.memory_used_mib; }, GibText},
    {"SM activity, mean", [](const Metrics& m) { return m.sm_active; }, PercentText},
    {"GPU energy", [](const Metrics& m) { return m.energy_mj; }, MegajouleText},
    {"GPU power, mean", [](const Metrics& m) { return m.power_w; }, WattText},
    {"OOM crashes", [](const Metrics& m) -> Value { return static_cast<double>(m.oom_crashes); },
     WholeText},
    {"tasks", [](const Metrics& m) -> Value { return static_cast<double>(m.tasks); }, WholeText},
};

std::int64_t CountOf(const Metrics& metrics, core::TaskState state) {
  for (const auto& [each, count] : metrics.tasks_by_state) {
    if (each == state) return count;
  }
  return 0;
}

// Lines of cells as columns: the first left, the others right aligned.
std::string Align(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const auto& cells : lines) {
    std::string line = fmt::format("{:<{}}", cells[0], widths[0]);
    for (std::size_t i = 1; i < cells.size(); ++i) {
      line += fmt::format("  {:>{}}", cells[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Difference(Value base, Value value) {
  if (!base || !value || *base == 0) return "";
  return fmt::format("{:+.1f} %", (*value / *base - 1) * 100);
}

// Name, the first run's value, and for each further run its value and difference.
std::vector<std::string> Cells(const Line& line, std::span<const Metrics> runs) {
  std::vector<std::string> cells{line.name};
  const Value base = line.value(runs.front());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Value value = line.value(runs[i]);
    cells.push_back(value ? line.text(*value) : "not reported");
    if (i > 0) cells.push_back(Difference(base, value));
  }
  return cells;
}

std::vector<std::string> StateCells(core::TaskState state, std::span<const Metrics> runs) {
  std::vector<std::string> cells{"  " + std::string(core::TaskStateName(state))};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    cells.push_back(std::to_string(CountOf(runs[i], state)));
    if (i > 0) cells.emplace_back();
  }
  return cells;
}

// States that occur in any of the runs.
void AddStates(std::span<const Metrics> runs, std::vector<std::vector<std::string>>& lines) {
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    const auto state = static_cast<core::TaskState>(i);
    const bool occurs = std::any_of(runs.begin(), runs.end(),
                                    [&](const Metrics& m) { return CountOf(m, state) > 0; });
    if (occurs) lines.push_back(StateCells(state, runs));
  }
}

// What a reader must know before trusting the GPU lines.
std::string CoverageNotes(std::span<const Metrics> runs) {
  constexpr double kComplete = 0.95;
  std::string notes;
  for (const Metrics& m : runs) {
    if (m.gpus == 0 || m.gpu_coverage >= kComplete) continue;
    notes += fmt::format("note: {}GPU records cover {:.0f} % of the run\n",
                         m.label.empty() ? "" : base::Printable(m.label, 40) + ": ",
                         m.gpu_coverage * 100);
  }
  return notes;
}

}  // namespace

std::string Table(const Metrics& metrics) {
  return Compare({&metrics, 1});
}

std::string Compare(std::span<const Metrics> runs) {
  if (runs.empty()) return "";
  std::vector<std::vector<std::string>> lines;
  const bool labelled =
      std::any_of(runs.begin(), runs.end(), [](const Metrics& m) { return !m.label.empty(); });
  if (labelled) {
    std::vector<std::string> head{""};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      head.push_back(base::Printable(runs[i].label, 24));
      if (i > 0) head.emplace_back();
    }
    lines.push_back(std::move(head));
  }
  for (const Line& line : kLines) lines.push_back(Cells(line, runs));
  AddStates(runs, lines);
  return Align(lines) + CoverageNotes(runs);
}

}  // namespace carma::report

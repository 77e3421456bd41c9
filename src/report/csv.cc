// Writes runs and tasks as comma-separated text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/time.h"
#include "report/lines.h"
#include "report/report.h"
#include "report/tally.h"

namespace carma::report {
namespace {

// A cell as in RFC 4180, always quoted. Names come from users, so line breaks become spaces, and a
// leading character that a spreadsheet would interpret as a formula is escaped.
std::string Cell(std::string_view text) {
  std::string cell = "\"";
  if (!text.empty() && std::string_view("=+-@\t").find(text.front()) != std::string_view::npos)
    cell += '\'';
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return cell + "\"";
}

std::string Cell(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? fmt::format("{:.10g}", *number) : "";
}

void AddTask(const std::string& label, const RunTask& task, core::Time zero, std::string& text) {
  const TaskOutcome outcome = OutcomeOf(task);
  const auto since = [&](const std::optional<core::Time>& when) {
    return when ? Cell(base::Seconds(*when - zero)) : "";
  };
  const bool counts = task.ended && outcome.executed;
  std::optional<double> jct_s, execution_s, slowdown;
  if (counts) {
    execution_s = base::Seconds(*outcome.executed);
    jct_s = base::Seconds(outcome.Whole());
    if (task.solo_s && *task.solo_s > 0 && task.state == core::TaskState::kSucceeded)
      slowdown = base::Seconds(*outcome.last_executed) / *task.solo_s;
  }
  const auto first =
      task.attempts.empty() ? std::nullopt : std::optional(task.attempts.front().started);
  const std::string gpus =
      task.attempts.empty() ? "" : fmt::format("{}", fmt::join(task.attempts.back().gpus, " "));
  const auto memory = std::ranges::find(task.forecasts, "memory_mib", &Forecast::what);
  const bool known = memory != task.forecasts.end();
  text +=
      fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", Cell(label),
                  task.id, Cell(task.name), Cell(task.group), task.gpus,
                  core::TaskStateName(task.state), since(task.submitted), since(first),
                  since(task.ended), counts ? Cell(*jct_s - *execution_s) : "", Cell(execution_s),
                  Cell(jct_s), Cell(slowdown), task.attempts.size(), outcome.ooms, gpus,
                  known ? Cell(memory->predicted) : "", known ? Cell(memory->promised) : "",
                  known ? Cell(memory->seen) : "", task.reason.empty() ? "" : Cell(task.reason));
}

}  // namespace

std::string RunsCsv(std::span<const Metrics> runs) {
  const std::vector<std::string> bounds = BoundNames(CasesOf(runs));
  std::string text = "label,simulated";
  for (const Line& line : Lines()) text += "," + line.key;
  text += ",executed,attempts,gpus,gpu_coverage";
  for (const std::string& name : bounds) text += "," + Cell("bound_s " + name);
  text += ",provenance,seed\n";
  for (const Metrics& run : runs) {
    text += Cell(run.label) + (run.simulated ? ",1" : ",0");
    for (const Line& line : Lines()) text += "," + Cell(line.value(run));
    text +=
        fmt::format(",{},{},{},{}", run.executed, run.attempts, run.gpus, Cell(run.gpu_coverage));
    for (const std::string& name : bounds) text += "," + Cell(BoundOf({run.label, {&run}}, name));
    text +=
        fmt::format(",{},{}\n", Cell(run.provenance), run.seed ? std::to_string(*run.seed) : "");
  }
  return text;
}

std::string TasksCsv(std::span<const Report> reports) {
  std::string text =
      "label,id,name,group,gpus,state,submitted_s,started_s,ended_s,waiting_s,execution_s,jct_s,"
      "slowdown,attempts,oom_crashes,last_gpus,memory_predicted_mib,memory_promised_mib,"
      "memory_seen_mib,reason\n";
  for (const Report& report : reports) {
    if (!report.run) continue;
    for (const RunTask& task : report.run->tasks)
      AddTask(report.metrics.label, task, report.run->from, text);
  }
  return text;
}

}  // namespace carma::report

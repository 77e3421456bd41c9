#include "report/html_parts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "report/lines.h"
#include "report/svg.h"

namespace carma::report {
namespace {

void PutRow(std::string& out, std::string_view css, std::string_view name,
            const std::vector<std::pair<std::string, std::string>>& cells) {
  Put(out, "<tr class=\"{}\"><td>{}</td>", css, Escape(name));
  for (const auto& [value, below] : cells) {
    Put(out, "<td>{}", Escape(value));
    if (!below.empty()) Put(out, "<small>{}</small>", Escape(below));
    out += "</td>";
  }
  out += "</tr>\n";
}

void PutLine(std::string& out, const std::vector<Case>& cases, const Line& line) {
  std::vector<std::pair<std::string, std::string>> cells;
  bool reported = line.always;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::optional<Estimated> value = Over(cases[i], line);
    reported = reported || value;
    cells.emplace_back(value ? Text(line, *value) : "not reported",
                       i > 0 ? Difference(line, cases.front(), cases[i]) : "");
  }
  if (reported) PutRow(out, "", line.name, cells);
}

// Equal bounds share one row.
void PutBounds(std::string& out, const std::vector<Case>& cases) {
  using Cells = std::vector<std::pair<std::string, std::string>>;
  std::vector<std::pair<std::string, Cells>> rows;
  const Line& makespan = LineOf("trace_total_s");
  for (const std::string& name : BoundNames(cases)) {
    Cells cells;
    for (const Case& each : cases) {
      const std::optional<double> bound_s = BoundOf(each, name);
      const std::optional<Estimated> value = Over(each, makespan);
      cells.emplace_back(
          bound_s ? SpanText(*bound_s) : "",
          bound_s && value && value->mean >= *bound_s ? AboveBound(*bound_s, *value) : "");
    }
    const auto same = std::ranges::find(rows, cells, &std::pair<std::string, Cells>::second);
    if (same == rows.end()) {
      rows.emplace_back("bound: " + name, std::move(cells));
    } else {
      same->first += ", " + name;
    }
  }
  for (const auto& [name, cells] : rows) PutRow(out, "sub", name, cells);
}

bool AnyReplays(const std::vector<Case>& cases) {
  return std::ranges::any_of(cases, [](const Case& each) { return each.replays.size() > 1; });
}

// For tables that do not show means over replays.
const char* ReplayNote(const std::vector<Case>& cases) {
  return AnyReplays(cases) ? "<p>Values are from the first replay of each run.</p>" : "";
}

void PutMetricsTable(std::string& out, const std::vector<Case>& cases) {
  Put(out, "<div class=\"scroll\"><table class=\"metrics n{}\"><thead><tr><th></th>", cases.size());
  for (const Case& each : cases) {
    Put(out, "<th>{}", Escape(NameOf(each.label)));
    if (each.replays.size() > 1) Put(out, "<br><small>{} replays</small>", each.replays.size());
    out += "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const Line& line : Lines()) {
    PutLine(out, cases, line);
    if (line.key == "trace_total_s") PutBounds(out, cases);
  }
  out += "</tbody></table></div>\n";
}

}  // namespace

void PutMetrics(std::string& out, const std::vector<Case>& cases) {
  // The maximum number of columns on paper. Further columns go into additional tables, each of
  // which repeats the first case.
  constexpr std::size_t kColumns = 6;
  out += "<section><h2>Metrics</h2>\n";
  std::size_t next = 1;
  do {
    std::vector<Case> shown{cases.front()};
    while (next < cases.size() && shown.size() < kColumns) shown.push_back(cases[next++]);
    PutMetricsTable(out, shown);
  } while (next < cases.size());
  if (!BoundNames(cases).empty()) {
    out +=
        "<p>Bounds are lower limits on the trace total time. The line below each bound shows how "
        "far the run is above it. The exclusive area is valid only without collocation, and the SM "
        "activity area only without MPS.</p>";
  }
  if (cases.size() > 1) {
    out += "<p>Differences are relative to the first column.";
    if (AnyReplays(cases))
      out += " Replays: mean ± standard deviation; a difference in brackets is within their noise.";
    out += "</p>";
  }
  for (const Case& each : cases) {
    const Metrics& first = *each.replays.front();
    if (first.gpus == 0 || first.gpu_coverage >= 0.95) continue;
    Put(out, "<p>{}: GPU records cover {:.0f} % of the run.</p>", Escape(NameOf(each.label)),
        first.gpu_coverage * 100);
  }
  out += "</section>\n";
}

void PutGroups(std::string& out, const std::vector<Case>& cases) {
  std::map<std::string, std::vector<std::pair<const Case*, const GroupMetrics*>>> by_name;
  for (const Case& each : cases) {
    for (const GroupMetrics& group : each.replays.front()->groups)
      by_name[group.name].emplace_back(&each, &group);
  }
  constexpr std::size_t kMostRows = 200;
  std::string rows;
  std::size_t count = 0;
  for (const auto& [name, groups] : by_name) {
    for (const auto& [of, group] : groups) {
      if (++count > kMostRows) continue;
      const auto span = [&](double seconds) {
        return group->executed == 0 && seconds == 0 ? "–" : SpanText(seconds);
      };
      Put(rows,
          "<tr><td>{}</td><td class=\"run\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td><td>{}</td><td>{}</td></tr>\n",
          Escape(name, 60), Escape(NameOf(of->label), 60), group->tasks, span(group->waiting.mean),
          span(group->execution.mean), span(group->jct.mean), span(group->jct.p95),
          group->slowdown ? fmt::format("{:.2f}", group->slowdown->mean) : "–", group->oom_crashes);
    }
  }
  std::string notes;
  if (count > kMostRows) Put(notes, "<p>Only {} of {} rows are shown.</p>", kMostRows, count);
  notes += ReplayNote(cases);
  PutTable(out, "By task group",
           {"group", "run", "tasks", "waiting, mean", "execution, mean", "completion, mean",
            "completion, 95 %", "slowdown, mean", "OOM crashes"},
           rows, notes);
}

void PutUsers(std::string& out, const std::vector<Case>& cases) {
  std::string rows;
  for (const Case& each : cases) {
    for (const UserMetrics& user : each.replays.front()->users) {
      Put(rows,
          "<tr><td>{}</td><td "
          "class=\"run\">{}</td><td>{}</td><td>{:.1f}</td><td>{}</td><td>{:.2f}</td></tr>\n",
          Escape(user.name, 60), Escape(NameOf(each.label), 60), user.tasks, user.gpu_s / 3600,
          SpanText(user.waiting_mean_s), user.stretch_mean);
    }
  }
  PutTable(out, "By user",
           {"user", "run", "tasks", "GPU hours", "waiting, mean", "completion / time alone, mean"},
           rows, ReplayNote(cases));
}

void PutForecasts(std::string& out, const std::vector<Case>& cases) {
  std::string rows;
  for (const Case& each : cases) {
    for (const ForecastMetrics& of : each.replays.front()->forecasts) {
      Put(rows,
          "<tr><td>{}</td><td>{}</td><td "
          "class=\"run\">{}</td><td>{}</td><td>{:.2f}</td><td>{:.2f}</td>"
          "<td>{:.2f}</td><td>{} of {}</td></tr>\n",
          Escape(of.what, 60), Escape(of.by, 60), Escape(NameOf(each.label), 60), of.tasks,
          of.ratio.median, of.ratio.mean, of.ratio.p95, of.kept, of.promised);
    }
  }
  PutTable(out, "Predicted and measured",
           {"predicted", "by", "run", "tasks", "measured / predicted, median", "mean", "95 %",
            "within the promise"},
           rows, ReplayNote(cases));
}

}  // namespace carma::report

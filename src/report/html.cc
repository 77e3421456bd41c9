#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "report/charts.h"
#include "report/lines.h"
#include "report/result.h"
#include "report/tally.h"
#include "report/timeline.h"

namespace carma::report {

// style.css. Its colours are from Okabe and Ito's set for all kinds of colour vision, darkened
// where white text stands on them; lines also differ in their dashes, for paper without colour.
extern const std::string_view kStyle;

using base::Seconds;

namespace {

constexpr double kHalf = 590, kWhole = 1190, kThird = 385;
constexpr std::size_t kMaxCdfCases = 8;
constexpr std::size_t kMaxBars = 60;

template <class... Args>
void Put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string NameOf(const std::string& label) {
  return label.empty() ? "this run" : label;
}

std::string Counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// ---- tables ----

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
  const std::optional<Estimated> base = Over(cases.front(), line);
  std::vector<std::pair<std::string, std::string>> cells;
  bool reported = line.always;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::optional<Estimated> value = Over(cases[i], line);
    reported = reported || value;
    cells.emplace_back(value ? Text(line, *value) : "not reported",
                       i > 0 && base && value ? Difference(line, *base, *value) : "");
  }
  if (reported) PutRow(out, "", line.name, cells);
}

void PutBounds(std::string& out, const std::vector<Case>& cases) {
  const Line& makespan = LineOf("trace_total_s");
  for (const std::string& name : BoundNames(cases)) {
    std::vector<std::pair<std::string, std::string>> cells;
    for (const Case& each : cases) {
      const std::optional<double> bound_s = BoundOf(each, name);
      const std::optional<Estimated> value = Over(each, makespan);
      cells.emplace_back(bound_s ? SpanText(*bound_s) : "",
                         bound_s && value && value->mean >= *bound_s
                             ? Difference({.mean = *bound_s}, *value)
                             : "");
    }
    PutRow(out, "sub", "bound: " + name, cells);
  }
}

void PutMetricsTable(std::string& out, const std::vector<Case>& cases) {
  out += "<div class=\"scroll\"><table><thead><tr><th></th>";
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

void PutMetrics(std::string& out, const std::vector<Case>& cases) {
  // More columns would run off the paper: further tables, each beginning with the first case.
  constexpr std::size_t kColumns = 6;
  out += "<section><h2>Metrics</h2>\n";
  std::size_t next = 1;
  do {
    std::vector<Case> shown{cases.front()};
    while (next < cases.size() && shown.size() < kColumns) shown.push_back(cases[next++]);
    PutMetricsTable(out, shown);
  } while (next < cases.size());
  const bool replays = std::any_of(cases.begin(), cases.end(),
                                   [](const Case& each) { return each.replays.size() > 1; });
  if (!BoundNames(cases).empty()) {
    out +=
        "<p>Bounds: no policy can be faster; below, how far the trace total time is above. "
        "The exclusive area holds only without collocation: who shares GPUs may be faster.</p>";
  }
  if (cases.size() > 1) {
    out += "<p>Differences are relative to the first column.";
    if (replays) {
      out += " Replays: mean ± standard deviation; a difference in brackets is within their noise.";
    }
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
    for (const GroupMetrics& group : each.replays.front()->groups) {
      by_name[group.name].emplace_back(&each, &group);
    }
  }
  if (by_name.empty()) return;
  constexpr std::size_t kMostRows = 200;
  out +=
      "<section><h2>By group of tasks</h2><div class=\"scroll\"><table><thead><tr><th>group</th>"
      "<th>run</th><th>tasks</th><th>waiting, mean</th><th>execution, mean</th>"
      "<th>completion, mean</th><th>completion, 95 %</th><th>slowdown, mean</th>"
      "<th>OOM crashes</th></tr></thead><tbody>\n";
  std::size_t rows = 0;
  for (const auto& [name, groups] : by_name) {
    for (const auto& [of, group] : groups) {
      if (++rows > kMostRows) break;
      Put(out,
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td><td>{}</td></tr>\n",
          Escape(name, 60), Escape(NameOf(of->label), 60), group->tasks,
          SpanText(group->waiting.mean), SpanText(group->execution.mean), SpanText(group->jct.mean),
          SpanText(group->jct.p95),
          group->slowdown ? fmt::format("{:.2f}", group->slowdown->mean) : "–", group->oom_crashes);
    }
  }
  out += "</tbody></table></div>";
  if (rows > kMostRows) Put(out, "<p>{} of {} rows.</p>", kMostRows, rows);
  const bool replays = std::any_of(cases.begin(), cases.end(),
                                   [](const Case& each) { return each.replays.size() > 1; });
  if (replays) out += "<p>Of the first replay of each run.</p>";
  out += "</section>\n";
}

void PutUsers(std::string& out, const std::vector<Case>& cases) {
  std::string rows;
  for (const Case& each : cases) {
    for (const UserMetrics& user : each.replays.front()->users) {
      Put(rows,
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td><td>{}</td><td>{:.2f}</td></tr>\n",
          Escape(user.name, 60), Escape(NameOf(each.label), 60), user.tasks, user.gpu_s / 3600,
          SpanText(user.waiting_mean_s), user.stretch_mean);
    }
  }
  if (rows.empty()) return;
  Put(out,
      "<section><h2>By user</h2><div class=\"scroll\"><table><thead><tr><th>user</th><th>run</th>"
      "<th>tasks</th><th>GPU hours</th><th>waiting, mean</th><th>completion / time alone, mean</th>"
      "</tr></thead><tbody>\n{}</tbody></table></div></section>\n",
      rows);
}

void PutForecasts(std::string& out, const std::vector<Case>& cases) {
  std::string rows;
  for (const Case& each : cases) {
    for (const ForecastMetrics& of : each.replays.front()->forecasts) {
      Put(rows,
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{:.2f}</td>"
          "<td>{:.2f}</td><td>{} of {}</td></tr>\n",
          Escape(of.what, 60), Escape(of.by, 60), Escape(NameOf(each.label), 60), of.tasks,
          of.ratio.median, of.ratio.mean, of.ratio.p95, of.kept, of.promised);
    }
  }
  if (rows.empty()) return;
  Put(out,
      "<section><h2>Predicted against seen</h2><div class=\"scroll\"><table><thead><tr>"
      "<th>predicted</th><th>by</th><th>run</th><th>tasks</th><th>seen / predicted, median</th>"
      "<th>mean</th><th>95 %</th><th>within the promise</th></tr></thead><tbody>\n{}"
      "</tbody></table></div></section>\n",
      rows);
}

// ---- bars and distributions ----

void PutFigure(std::string& out, std::string_view caption, const std::string& drawing) {
  Put(out, "<figure><figcaption>{}</figcaption>{}</figure>\n", Escape(caption, 400), drawing);
}

struct BarFigure {
  std::string caption;
  std::vector<Bar> bars;
  std::vector<BarMark> marks;
  bool of_time = false;
};

void PutBars(std::string& out, const BarFigure& figure) {
  double high = 0;
  for (const Bar& bar : figure.bars) {
    double sum = bar.error;
    for (const BarPart& part : bar.parts) sum += part.value;
    high = std::max(high, sum);
  }
  for (const BarMark& mark : figure.marks) high = std::max(high, mark.value);
  if (high <= 0) return;
  const std::vector<Tick> ticks = figure.of_time ? TimeTicks(high, 5) : NiceTicks(high, 5);
  PutFigure(out, figure.caption,
            BarChart(figure.caption, figure.bars, figure.marks, high, ticks, kHalf));
}

// The colour of a case, the same in all figures.
std::string ColourOf(const std::vector<Case>& cases, const Case& of) {
  return fmt::format("p{}", static_cast<std::size_t>(&of - cases.data()) % kMaxCdfCases);
}

// One bar per case that reports the metric.
BarFigure BarsOf(const std::vector<Case>& cases, std::string_view key, std::string caption) {
  const Line& line = LineOf(key);
  BarFigure figure{.caption = std::move(caption), .bars = {}, .marks = {}};
  figure.of_time = key.ends_with("_s");
  const double scale = line.share ? 100 : 1;  // the axis is in percent as the values are
  for (const Case& each : cases) {
    const std::optional<Estimated> value = Over(each, line);
    if (!value || figure.bars.size() == kMaxBars) continue;
    figure.bars.push_back({.label = NameOf(each.label),
                           .parts = {{value->mean * scale, ColourOf(cases, each)}},
                           .error = value->sd * scale,
                           .text = line.text(value->mean)});
  }
  return figure;
}

BarFigure Completion(const std::vector<Case>& cases) {
  BarFigure figure =
      BarsOf(cases, "jct_mean_s", "Completion per task, mean: waiting (grey) and execution (blue)");
  std::size_t i = 0;
  for (const Case& each : cases) {
    const std::optional<Estimated> waiting = Over(each, LineOf("waiting_mean_s"));
    if (!waiting || i == figure.bars.size()) continue;
    Bar& bar = figure.bars[i++];
    const double completion = bar.parts.front().value;
    bar.parts = {{waiting->mean, "waits"}, {completion - waiting->mean, "runs"}};
  }
  return figure;
}

void PutComparison(std::string& out, const std::vector<Case>& cases) {
  out += "<section class=\"whole\"><h2>Side by side</h2><div class=\"grid\">\n";
  BarFigure total = BarsOf(cases, "trace_total_s", "Trace total time, with the bounds of the load");
  // The same load has the same bounds; the first case stands for all.
  for (const Bound& bound : cases.front().replays.front()->bounds) {
    total.marks.push_back({bound.makespan_s, bound.name});
  }
  if (total.marks.empty()) total.caption = "Trace total time";
  PutBars(out, total);
  PutBars(out, Completion(cases));
  PutBars(out, BarsOf(cases, "energy_mj", "GPU energy, MJ"));
  PutBars(out, BarsOf(cases, "sm_active", "SM activity, mean, %"));
  PutBars(out, BarsOf(cases, "slowdown_mean", "Slowdown against running alone, mean"));
  PutBars(out, BarsOf(cases, "oom_crashes", "OOM crashes"));
  out += "</div>";
  if (cases.size() > kMaxBars) {
    Put(out, "<p>The first {} of {} runs.</p>", kMaxBars, cases.size());
  }
  out += "</section>\n";
}

// Reports with records, by case, in order of the cases.
using Recorded = std::vector<std::pair<std::string, std::vector<const RunRecord*>>>;

Recorded RecordsOf(std::span<const Report> reports) {
  Recorded cases;
  for (const Report& report : reports) {
    if (!report.run) continue;
    const std::string& label = report.metrics.label;
    auto known = std::find_if(cases.begin(), cases.end(), [&](const auto& each) {
      return !label.empty() && each.first == label;
    });
    if (known == cases.end()) known = cases.insert(cases.end(), {label, {}});
    known->second.push_back(&*report.run);
  }
  return cases;
}

struct TaskTimes {
  std::vector<double> waiting_s, jct_s, slowdown;
};
TaskTimes TimesOf(const std::vector<const RunRecord*>& runs) {
  TaskTimes times;
  for (const RunRecord* run : runs) {
    for (const RunTask& task : run->tasks) {
      const TaskOutcome outcome = OutcomeOf(task);
      if (!task.ended || !outcome.executed) continue;
      const double execution_s = Seconds(*outcome.executed);
      const double jct_s = std::max(Seconds(*task.ended - task.submitted), execution_s);
      times.jct_s.push_back(jct_s);
      times.waiting_s.push_back(jct_s - execution_s);
      if (task.solo_s && *task.solo_s > 0 && task.state == core::TaskState::kSucceeded) {
        times.slowdown.push_back(Seconds(*outcome.last_executed) / *task.solo_s);
      }
    }
  }
  return times;
}

std::string Swatch(std::string_view shape) {
  return fmt::format(R"(<svg viewBox="0 0 22 11" aria-hidden="true">{}</svg>)", shape);
}

void PutDistributions(std::string& out, const Recorded& cases) {
  struct Panel {
    const char* caption;
    std::vector<double> TaskTimes::*values;
    bool of_time;
  };
  constexpr Panel kPanels[] = {{"Waiting", &TaskTimes::waiting_s, true},
                               {"Completion (JCT)", &TaskTimes::jct_s, true},
                               {"Slowdown", &TaskTimes::slowdown, false}};
  const std::size_t shown = std::min(cases.size(), kMaxCdfCases);
  std::vector<TaskTimes> times;
  times.reserve(shown);
  for (std::size_t i = 0; i < shown; ++i) times.push_back(TimesOf(cases[i].second));

  std::string figures;
  for (const Panel& panel : kPanels) {
    std::vector<Distribution> lines;
    double high = 0;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::vector<double>& values = times[i].*panel.values;
      if (values.empty()) continue;
      high = std::max(high, *std::max_element(values.begin(), values.end()));
      lines.push_back({NameOf(cases[i].first), fmt::format("l{}", i), values});
    }
    if (lines.empty() || high <= 0) continue;
    PutFigure(figures, std::string(panel.caption) + ": share of tasks at or below",
              CdfChart(panel.caption, lines,
                       panel.of_time ? TimeTicks(high, 4) : NiceTicks(high, 5), high, kThird));
  }
  if (figures.empty()) return;
  Put(out,
      "<section class=\"whole\"><h2>Distributions</h2><div class=\"grid three\">\n{}</div><div "
      "class=\"key\">",
      figures);
  for (std::size_t i = 0; i < shown; ++i) {
    Put(out, "<span>{}{}</span>", Swatch(fmt::format(R"(<path class="line l{}" d="M0 6H22"/>)", i)),
        Escape(NameOf(cases[i].first), 80));
  }
  out += "</div>";
  if (shown < cases.size()) Put(out, "<p>The first {} of {} runs.</p>", shown, cases.size());
  out += "</section>\n";
}

// ---- over time ----

// colours: whether any run is drawn in the colours of the groups.
void PutLegend(std::string& out, const TimelineFrame& frame, bool colours, bool crashes,
               bool broken) {
  out += "<div class=\"key\">";
  std::optional<std::size_t> last;
  std::vector<std::pair<std::size_t, std::string>> by_colour;
  if (colours) {
    for (const auto& [group, colour] : frame.colours) by_colour.emplace_back(colour, group);
  }
  std::sort(by_colour.begin(), by_colour.end());
  for (const auto& [colour, group] : by_colour) {
    if (colour == last) continue;  // those beyond the last colour share it
    last = colour;
    const bool shared = std::count_if(by_colour.begin(), by_colour.end(),
                                      [&](const auto& each) { return each.first == colour; }) > 1;
    if (group.empty() && frame.colours.size() == 1) continue;
    Put(out, "<span>{}{}</span>",
        Swatch(fmt::format(R"(<rect class="c{}" y="1" width="22" height="10"/>)", colour)),
        shared          ? "others"
        : group.empty() ? "without group"
                        : Escape(group, 40));
  }
  if (crashes) {
    Put(out, "<span>{}out of memory</span>",
        Swatch(R"(<path class="oom" d="M7 1L15 9M7 9L15 1"/>)"));
  }
  if (broken) {
    Put(out, "<span>{}paler: did not end well, or not yet</span>",
        Swatch(R"(<rect class="c0 broken" y="1" width="22" height="10"/>)"));
  }
  out += "</div>\n";
}

template <class Draw>
void PutRuns(std::string& out, std::string_view heading, const std::vector<const RunRecord*>& runs,
             std::string_view extra, Draw draw) {
  Put(out, "<section class=\"whole\"><h2>{}</h2>{}<div class=\"grid{}\">\n", heading, extra,
      runs.size() == 1       ? " one"
      : runs.size() % 3 == 0 ? " three"
                             : "");
  for (const RunRecord* run : runs) PutFigure(out, NameOf(run->label), draw(*run));
  out += "</div></section>\n";
}

bool AnyPromise(const std::vector<const RunRecord*>& runs) {
  return std::ranges::any_of(runs, [](const RunRecord* run) {
    return std::ranges::any_of(run->tasks, [](const RunTask& task) {
      return std::ranges::any_of(task.attempts,
                                 [](const Attempt& each) { return each.promised_mib.has_value(); });
    });
  });
}

std::string MemoryKey() {
  return fmt::format(
      "<div class=\"key\"><span>{}in use, by everybody</span><span>{}promised to tasks when they "
      "started</span></div>\n",
      Swatch(
          R"(<rect class="area" y="1" width="22" height="10"/><path class="curve" d="M0 1H22"/>)"),
      Swatch(R"(<path class="promise" d="M0 6H22"/>)"));
}

void PutGpus(std::string& out, const std::vector<const RunRecord*>& runs,
             const TimelineFrame& frame) {
  constexpr std::pair<const char*, Quantity> kQuantities[] = {{"GPU memory", Quantity::kMemory},
                                                              {"SM activity", Quantity::kSmActive},
                                                              {"Power", Quantity::kPower}};
  for (const auto& [heading, quantity] : kQuantities) {
    const bool told = quantity == Quantity::kMemory && AnyPromise(runs);
    PutRuns(out, heading, runs, told ? MemoryKey() : "",
            [&, q = quantity](const RunRecord& run) { return GpuChart(run, q, frame); });
  }
}

std::optional<double> ClockFrom(const RunRecord& run, const std::optional<Clock>& clock) {
  if (!clock) return std::nullopt;
  return static_cast<double>(base::ToMs(run.from + clock->ahead_of_utc)) / 1000;
}

void PutTimelines(std::string& out, const Recorded& cases, const std::optional<Clock>& clock) {
  std::vector<const RunRecord*> runs;
  for (const auto& [label, records] : cases) {
    if (runs.size() < kMaxDrawnRuns) runs.push_back(records.front());
  }
  if (runs.empty()) return;
  TimelineFrame frame = FrameFor(runs, runs.size() == 1 ? kWhole : kHalf);
  if (runs.size() == 1) frame.clock_from_s = ClockFrom(*runs.front(), clock);
  bool crashes = false, broken = false, all_one_by_one = true, any_one_by_one = false;
  for (const RunRecord* run : runs) {
    const bool one_by_one = DrawnOneByOne(*run);
    all_one_by_one = all_one_by_one && one_by_one;
    any_one_by_one = any_one_by_one || one_by_one;
    for (const RunTask& task : run->tasks) {
      for (const Attempt& attempt : task.attempts) {
        crashes = crashes || attempt.end == AttemptEnd::kOutOfMemory;
        broken = broken || attempt.end != AttemptEnd::kSucceeded;
      }
    }
  }
  std::string legend;
  if (cases.size() > runs.size()) {
    Put(legend, "<p>The first {} of {} runs with records.</p>", runs.size(), cases.size());
  }
  if (!all_one_by_one) {
    Put(legend,
        "<p>A run with more than {} executions or {} GPUs is drawn as the mean number of tasks per "
        "GPU: the darker, the more.</p>",
        kMaxGanttAttempts, kMaxGanttGpus);
  }
  PutLegend(legend, frame, any_one_by_one, crashes, any_one_by_one && broken);
  PutRuns(out, "Tasks on the GPUs", runs, legend,
          [&](const RunRecord& run) { return Gantt(run, frame); });
  PutRuns(out, "Waiting tasks", runs, "",
          [&](const RunRecord& run) { return QueueChart(run, frame); });
  PutGpus(out, runs, frame);
}

// ---- what tasks waited for ----

struct Waits {
  double first_s = 0;       // for the first start
  double after_oom_s = 0;   // for the next one, after it ran out of memory
  double after_stop_s = 0;  // after it was sent back: its turn was over, or somebody went before it
  double after_fault_s = 0;
  double AllS() const { return first_s + after_oom_s + after_stop_s + after_fault_s; }
};

// Of the tasks that have ended.
Waits WaitsOf(const RunRecord& run) {
  Waits waits;
  for (const RunTask& task : run.tasks) {
    if (!task.ended) continue;
    core::Time from = task.submitted;
    double* into = &waits.first_s;
    for (const Attempt& attempt : task.attempts) {
      *into += std::max(0.0, Seconds(attempt.started - from));
      from = attempt.ended;
      into = attempt.end == AttemptEnd::kOutOfMemory ? &waits.after_oom_s
             : attempt.end == AttemptEnd::kStopped   ? &waits.after_stop_s
                                                     : &waits.after_fault_s;
    }
    if (task.attempts.empty()) *into += std::max(0.0, Seconds(*task.ended - from));
  }
  return waits;
}

void PutWaits(std::string& out, const Recorded& cases) {
  std::string rows;
  for (const auto& [label, records] : cases) {
    const Waits waits = WaitsOf(*records.front());
    if (waits.AllS() <= 0) continue;
    const auto cell = [&](double s) {
      return fmt::format("<td>{:.1f} h<small>{:.0f} %</small></td>", s / 3600,
                         s / waits.AllS() * 100);
    };
    Put(rows, "<tr><td>{}</td>{}{}{}{}<td>{:.1f} h</td></tr>\n", Escape(NameOf(label), 60),
        cell(waits.first_s), cell(waits.after_oom_s), cell(waits.after_stop_s),
        cell(waits.after_fault_s), waits.AllS() / 3600);
  }
  if (rows.empty()) return;
  Put(out,
      "<section><h2>What tasks waited for</h2><div class=\"scroll\"><table><thead><tr>"
      "<th>run</th><th>their first start</th><th>another, out of memory</th>"
      "<th>another, sent back</th><th>another, after a fault</th><th>all tasks</th></tr></thead>"
      "<tbody>\n{}</tbody></table></div></section>\n",
      rows);
}

// What the first in line waited for, the longest first: others wait for it.
void PutLineWaits(std::string& out, const Recorded& cases) {
  std::string rows;
  for (const auto& [label, records] : cases) {
    std::vector<std::pair<double, std::string>> waits;
    double all_s = 0;
    for (const auto& [reason, waited_s] : records.front()->line_waits_s) {
      waits.emplace_back(waited_s, reason);
      all_s += waited_s;
    }
    if (all_s <= 0) continue;
    std::ranges::sort(waits, std::greater());
    for (const auto& [waited_s, reason] : waits) {
      Put(rows, "<tr><td>{}</td><td>{}</td><td>{}<small>{:.0f} %</small></td></tr>\n",
          Escape(NameOf(label), 60), Escape(reason, 40), SpanText(waited_s),
          waited_s / all_s * 100);
    }
  }
  if (rows.empty()) return;
  Put(out,
      "<section><h2>What the first in line waited for</h2><div class=\"scroll\"><table><thead><tr>"
      "<th>run</th><th>reason</th><th>for</th></tr></thead>"
      "<tbody>\n{}</tbody></table></div></section>\n",
      rows);
}

// ---- what did not succeed ----

// "promised 12.0 GiB, seen 13.1 GiB"; empty: nothing was predicted.
std::string MemoryText(const RunTask& task) {
  for (const Forecast& each : task.forecasts) {
    if (each.what != "memory_mib") continue;
    return fmt::format("{:.1f} / {:.1f} GiB", each.promised.value_or(each.predicted) / 1024,
                       each.seen / 1024);
  }
  return "";
}

void PutTrouble(std::string& out, const Recorded& cases) {
  constexpr std::size_t kMostRows = 100;
  std::string rows;
  std::size_t count = 0;
  for (const auto& [label, records] : cases) {
    for (const RunTask& task : records.front()->tasks) {
      if (!core::IsFinal(task.state) || task.state == core::TaskState::kSucceeded) continue;
      if (++count > kMostRows) continue;
      const TaskOutcome outcome = OutcomeOf(task);
      const double ran_s = outcome.executed ? Seconds(*outcome.executed) : 0;
      const double waited_s =
          task.ended ? std::max(0.0, Seconds(*task.ended - task.submitted) - ran_s) : 0;
      Put(rows,
          "<tr><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td><td class=\"words\">{}</td></tr>\n",
          task.id, Escape(task.name, 60), Escape(NameOf(label), 60), Escape(task.user, 60),
          core::TaskStateName(task.state), task.attempts.size(), SpanText(waited_s),
          SpanText(ran_s), MemoryText(task), Escape(task.reason, 300));
    }
  }
  if (rows.empty()) return;
  Put(out,
      "<section><h2>Tasks that did not succeed</h2><div class=\"scroll\"><table><thead><tr>"
      "<th>task</th><th>run</th><th>user</th><th>state</th><th>starts</th><th>waited</th>"
      "<th>ran</th><th>memory, promised / "
      "seen</th><th class=\"words\">why</th></tr></thead><tbody>\n{}</tbody></table></div>",
      rows);
  if (count > kMostRows) Put(out, "<p>{} of {}.</p>", kMostRows, count);
  out += "</section>\n";
}

// ---- where it comes from ----

void PutProvenance(std::string& out, const std::vector<Case>& cases) {
  out += "<section><h2>Where these runs come from</h2><dl>\n";
  for (const Case& each : cases) {
    const Metrics& first = *each.replays.front();
    Put(out, "<dt>{} <span class=\"tag\">{}</span></dt>", Escape(NameOf(each.label)),
        first.simulated ? "simulated" : "recorded");
    if (first.executed > 0 && !first.simulated) {
      Put(out, "<dd>{} to {}</dd>", base::FormatTimeIso(first.first_submitted),
          base::FormatTimeIso(first.last_ended));
    }
    if (!first.provenance.empty()) {
      Put(out, "<dd><code>{}</code></dd>", Escape(first.provenance, 4096));
    }
  }
  out += "</dl><p>Definitions of the metrics: docs/metrics.md of CARMA.</p></section>\n";
}

}  // namespace

std::string HtmlPage(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{0}</title><style>\n{1}</style></head><body>\n<h1>{0}</h1>\n{2}</body></html>\n",
      Escape(title), kStyle, body);
}

std::string ClockText(core::Time when, Clock clock) {
  std::string text = base::FormatTimeIso(when + clock.ahead_of_utc).substr(0, 19);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

std::string GpusHtml(const RunRecord& run, std::string_view title, Clock clock) {
  const std::vector<const RunRecord*> runs{&run};
  TimelineFrame frame = FrameFor(runs, kWhole);
  frame.clock_from_s = ClockFrom(run, clock);
  std::string out;
  PutGpus(out, runs, frame);
  return HtmlPage(title, out);
}

namespace {

// The result and its numbers, before everything else.
void PutResult(std::string& out, std::span<const Metrics> metrics) {
  Put(out, "<p class=\"result\">{}</p>\n", Escape(ResultSentence(metrics), 1000));
  out += "<div class=\"numbers\">";
  for (const Headline& each : Headlines(metrics)) {
    Put(out, "<div><b>{}</b><span>{}{}</span></div>", Escape(each.value), Escape(each.name),
        each.change.empty() ? "" : "<br>" + Escape(each.change));
  }
  out += "</div>\n";
}

// Long labels would be cut in every figure: letters stand for them, and a list says for which.
constexpr std::size_t kLongLabel = 22;

std::vector<Report> WithLetters(std::span<const Report> reports, std::string& list) {
  std::vector<Report> lettered(reports.begin(), reports.end());
  std::map<std::string, std::string> letters;
  std::string items;
  for (Report& each : lettered) {
    const auto [known, added] = letters.emplace(each.metrics.label, "");
    if (added) {
      known->second = LetterOf(letters.size() - 1);
      Put(items, "<dt>{}</dt><dd>{}</dd>", known->second, Escape(known->first));
    }
    each.metrics.label = known->second;
    if (each.run) each.run->label = known->second;
  }
  list = "<dl class=\"letters\">" + items + "</dl>\n";
  return lettered;
}

bool WantsLetters(std::span<const Report> reports) {
  const auto is_long = [](const Report& each) { return each.metrics.label.size() > kLongLabel; };
  const auto is_named = [](const Report& each) { return !each.metrics.label.empty(); };
  return reports.size() > 1 && std::ranges::any_of(reports, is_long) &&
         std::ranges::all_of(reports, is_named);
}

// The clock on the wall at the beginning of the axes.
std::string RecordedText(const Metrics& metrics, const std::optional<Clock>& clock) {
  if (metrics.executed == 0) return "recorded";
  if (clock) {
    return fmt::format("recorded from {} to {}", ClockText(metrics.first_submitted, *clock),
                       ClockText(metrics.last_ended, *clock));
  }
  return fmt::format("recorded from {} (0 on the axes of time) to {}",
                     base::FormatTimeIso(metrics.first_submitted),
                     base::FormatTimeIso(metrics.last_ended));
}

// Without the result.
std::string Body(std::span<const Report> reports, const std::optional<Clock>& clock) {
  std::string out;
  std::vector<Metrics> metrics;
  metrics.reserve(reports.size());
  for (const Report& report : reports) metrics.push_back(report.metrics);
  const std::vector<Case> cases = CasesOf(metrics);
  const bool simulated = std::any_of(metrics.begin(), metrics.end(),
                                     [](const Metrics& each) { return each.simulated; });
  const bool recorded = std::any_of(metrics.begin(), metrics.end(),
                                    [](const Metrics& each) { return !each.simulated; });
  Put(out, "<p>{}{}, {}; {}.</p>\n",
      metrics.size() == 1 ? "" : fmt::format("{} runs; the first: ", metrics.size()),
      Counted(metrics.front().tasks, "task"), Counted(metrics.front().gpus, "GPU"),
      simulated && recorded ? "some simulated, some recorded"
      : simulated           ? "simulated"
                            : RecordedText(metrics.front(), clock));
  PutMetrics(out, cases);
  if (cases.size() > 1 || !metrics.front().bounds.empty()) PutComparison(out, cases);
  const Recorded records = RecordsOf(reports);
  PutDistributions(out, records);
  PutTimelines(out, records, clock);
  PutWaits(out, records);
  PutLineWaits(out, records);
  PutTrouble(out, records);
  PutUsers(out, cases);
  PutGroups(out, cases);
  PutForecasts(out, cases);
  PutProvenance(out, cases);
  return out;
}

}  // namespace

std::string Html(std::span<const Report> reports, std::string_view title,
                 const std::optional<Clock>& clock) {
  if (reports.empty()) return HtmlPage(title, "<p>There is no run to report.</p>");
  std::vector<Metrics> metrics;
  metrics.reserve(reports.size());
  for (const Report& report : reports) metrics.push_back(report.metrics);
  std::string out, letters;
  PutResult(out, metrics);
  if (!WantsLetters(reports)) return HtmlPage(title, out + Body(reports, clock));
  const std::vector<Report> lettered = WithLetters(reports, letters);
  return HtmlPage(title, out + letters + Body(lettered, clock));
}

}  // namespace carma::report

#include "report/html_parts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "report/charts.h"
#include "report/lines.h"
#include "report/tally.h"

namespace carma::report {
namespace {

using base::Seconds;

constexpr std::size_t kMaxCdfCases = 8;
constexpr std::size_t kMaxBars = 60;

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
            BarChart(figure.caption, figure.bars, figure.marks, high, ticks, kThird));
}

// The colour of a case, which is the same in all figures.
std::string ColourOf(const std::vector<Case>& cases, const Case& of) {
  return fmt::format("p{}", static_cast<std::size_t>(&of - cases.data()) % kMaxCdfCases);
}

// One bar per case that reports the metric.
BarFigure BarsOf(const std::vector<Case>& cases, std::string_view key, std::string caption) {
  const Line& line = LineOf(key);
  BarFigure figure{.caption = std::move(caption)};
  figure.of_time = key.ends_with("_s");
  const double scale = line.share ? 100 : 1;  // the axis is in percent, like the values
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
      BarsOf(cases, "jct_mean_s", "Mean completion time: waiting (grey), execution (blue)");
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
      const double jct_s = Seconds(outcome.Whole());
      times.jct_s.push_back(jct_s);
      times.waiting_s.push_back(jct_s - execution_s);
      if (task.solo_s && *task.solo_s > 0 && task.state == core::TaskState::kSucceeded)
        times.slowdown.push_back(Seconds(*outcome.last_executed) / *task.solo_s);
    }
  }
  return times;
}

}  // namespace

void PutComparison(std::string& out, const std::vector<Case>& cases) {
  out += "<section class=\"whole\"><h2>Side by side</h2><div class=\"grid three\">\n";
  BarFigure total =
      BarsOf(cases, "trace_total_s", "Trace total time, with the lower bounds of the workload");
  // All cases run the same workload, so the bounds of the first case apply to all cases. Equal
  // bounds share one mark.
  for (const Bound& bound : cases.front().replays.front()->bounds) {
    const auto same = std::ranges::find_if(total.marks, [&](const BarMark& mark) {
      return SpanText(mark.value) == SpanText(bound.makespan_s);
    });
    if (same == total.marks.end()) {
      total.marks.push_back({bound.makespan_s, bound.name});
    } else {
      same->name += ", " + bound.name;
    }
  }
  if (total.marks.empty()) total.caption = "Trace total time";
  PutBars(out, total);
  PutBars(out, Completion(cases));
  PutBars(out, BarsOf(cases, "energy_mj", "GPU energy, MJ"));
  PutBars(out, BarsOf(cases, "sm_active", "SM activity, mean, %"));
  PutBars(out, BarsOf(cases, "slowdown_mean", "Slowdown relative to running alone, mean"));
  PutBars(out, BarsOf(cases, "oom_crashes", "OOM crashes"));
  out += "</div>";
  if (cases.size() > kMaxBars)
    Put(out, "<p>Only the first {} of {} runs are shown.</p>", kMaxBars, cases.size());
  out += "</section>\n";
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
      high = std::max(high, *std::ranges::max_element(values));
      lines.push_back({NameOf(cases[i].first), fmt::format("l{}", i), values});
    }
    if (lines.empty() || high <= 0) continue;
    PutFigure(figures, std::string(panel.caption) + ": share of tasks at or below this value",
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
  if (shown < cases.size())
    Put(out, "<p>Only the first {} of {} runs are shown.</p>", shown, cases.size());
  out += "</section>\n";
}

}  // namespace carma::report

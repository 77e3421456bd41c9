#include "lab/verbs/simulate/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "cli/table.h"
#include "report/bounds.h"
#include "report/lines.h"
#include "report/result.h"

namespace carma::cli {
namespace {

using report::Change;
using report::Metrics;

std::vector<double> Values(const SimOutcome& outcome, double (*quantity)(const Metrics&)) {
  std::vector<double> values;
  values.reserve(outcome.runs.size());
  for (const Metrics& run : outcome.runs) values.push_back(quantity(run));
  return values;
}

double MeanOf(const SimOutcome& outcome, double (*quantity)(const Metrics&)) {
  return report::EstimatedOf(Values(outcome, quantity)).mean;
}

double Makespan(const Metrics& run) {
  return run.trace_total_s;
}
double Energy(const Metrics& run) {
  return run.energy_mj.value_or(0);
}

// Formats 0.015 as "+1.5". Never returns "-0.0".
std::string PercentText(double relative) {
  return fmt::format("{:+.1f}", std::round(relative * 1000) / 10 + 0.0);
}

// Formats a change as "-25.4 ±1.4", with "~" before a change within the noise.
std::string ChangeText(const Change& change) {
  std::string text = (change.within_noise ? "~" : "") + PercentText(change.relative.mean);
  if (change.relative.runs > 1) text += fmt::format(" ±{:.1f}", change.relative.sd * 100);
  return text;
}

std::string OomText(const SimOutcome& outcome) {
  const std::vector<double> ooms =
      Values(outcome, [](const Metrics& run) { return static_cast<double>(run.oom_crashes); });
  const auto [low, high] = std::minmax_element(ooms.begin(), ooms.end());
  if (ooms.size() == 1) return fmt::format("{:.0f}", ooms.front());
  return fmt::format("{:.1f} ({:.0f}-{:.0f})", report::EstimatedOf(ooms).mean, *low, *high);
}

// Mean number of failed tasks over all runs. Failed tasks shorten the makespan, which must not
// count as a gain.
double Failed(const SimOutcome& outcome) {
  return MeanOf(outcome,
                [](const Metrics& run) { return static_cast<double>(report::Failed(run)); });
}

// A table column: its title and its cell for each policy. detail: shown in a second table on narrow
// screens.
struct Quantity {
  std::string title;
  std::function<std::string(const SimOutcome&)> cell;
  bool detail = false;
};

std::string SlowdownText(const SimOutcome& outcome) {
  std::vector<double> means;  // excluding runs in which no task succeeded
  for (const Metrics& run : outcome.runs) {
    if (run.slowdown) means.push_back(run.slowdown->mean);
  }
  return means.empty() ? "-" : fmt::format("{:.2f}", report::EstimatedOf(means).mean);
}

// How far the makespan is above the bound. The bound covers the whole load, so it does not apply if
// tasks failed.
std::string ToBoundText(const SimOutcome& outcome) {
  const double bound = Failed(outcome) > 0 ? 0 : report::TightestBound(outcome.runs.front().bounds);
  return bound > 0 ? PercentText(MeanOf(outcome, Makespan) / bound - 1) : "-";
}

using QuantityText = std::function<std::string(const SimOutcome&)>;

QuantityText Mean(const char* format, double (*quantity)(const Metrics&), double unit = 1) {
  return [=](const SimOutcome& outcome) {
    return fmt::format(fmt::runtime(format), MeanOf(outcome, quantity) / unit);
  };
}

QuantityText InMinutes(double (*quantity)(const Metrics&)) {
  return Mean("{:.0f}", quantity, 60);
}

// "-" if there are no tasks to measure.
QuantityText TaskMinutes(double (*quantity)(const Metrics&)) {
  return [quantity, text = InMinutes(quantity)](const SimOutcome& outcome) {
    return NoTaskRan(outcome) ? "-" : text(outcome);
  };
}

std::vector<Quantity> QuantitiesOf(std::span<const SimOutcome> outcomes) {
  const SimOutcome& first = outcomes.front();
  const auto change = [&first](double (*quantity)(const Metrics&)) {
    return [&first, quantity](const SimOutcome& outcome) {
      if (&outcome == &first) return std::string("-");
      return ChangeText(report::ChangeOf(Values(outcome, quantity), Values(first, quantity)));
    };
  };
  const auto any = [&outcomes](auto member) {
    return std::ranges::any_of(outcomes, [member](const SimOutcome& each) {
      return (each.runs.front().*member).has_value();
    });
  };
  std::vector<Quantity> quantities{
      {"MAKESPAN min", InMinutes(Makespan)},
      {"CHANGE %", change(Makespan)},
      {"ENERGY MJ", Mean("{:.2f}", Energy), true},
      {"CHANGE %", change(Energy), true},
      {"OOM", OomText, true},
      {"FAILED",
       [](const SimOutcome& each) {
         return Failed(each) > 0 ? fmt::format("{:.4g}", Failed(each)) : "-";
       },
       true},
      {"WAIT min", TaskMinutes([](const Metrics& run) { return run.waiting.mean; })},
      {"RUN min", TaskMinutes([](const Metrics& run) { return run.execution.mean; })},
      {"JCT min", TaskMinutes([](const Metrics& run) { return run.jct.mean; })},
      {"SM %", Mean("{:.1f}", [](const Metrics& run) { return run.sm_active.value_or(0) * 100; }),
       true},
      {"MEMORY",
       [](const SimOutcome& each) {
         return base::FormatMib(static_cast<std::int64_t>(
             MeanOf(each, [](const Metrics& run) { return run.memory_used_mib.value_or(0); })));
       },
       true},
      {"SLOWDOWN", SlowdownText},
      {"TO BOUND %", ToBoundText, true}};
  if (any(&Metrics::jain)) {
    quantities.push_back(
        {"JAIN", Mean("{:.2f}", [](const Metrics& run) { return run.jain.value_or(1); }), true});
    quantities.push_back(
        {"WORST USER WAIT min",
         InMinutes([](const Metrics& run) { return run.worst_user_waiting_s.value_or(0); }), true});
  }
  if (any(&Metrics::requeues)) {
    quantities.push_back(
        {"JCT 95 % min", InMinutes([](const Metrics& run) { return run.jct.p95; }), true});
    quantities.push_back(
        {"REQUEUES",
         Mean("{:.4g}",
              [](const Metrics& run) { return static_cast<double>(run.requeues.value_or(0)); }),
         true});
  }
  if (any(&Metrics::lost_share)) {
    quantities.push_back(
        {"LOST %",
         Mean("{:.2f}", [](const Metrics& run) { return 100 * run.lost_share.value_or(0); }),
         true});
  }
  return quantities;
}

// labels: the names of the outcomes in the table.
std::string TableOf(std::span<const SimOutcome> outcomes, std::span<const std::string> labels,
                    std::span<const Quantity* const> shown, std::size_t label_width,
                    const Screen& screen) {
  std::vector<Column> columns{{"POLICY", false, label_width}};
  for (const Quantity* each : shown) columns.push_back({each->title, true});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    std::vector<Cell> cells{{labels[i]}};
    for (const Quantity* each : shown) cells.push_back({each->cell(outcomes[i])});
    table.Add(std::move(cells));
  }
  return table.Text(screen);
}

bool Fits(const std::string& text, const Screen& screen) {
  if (screen.width <= 0) return true;
  return std::ranges::all_of(base::Split(text, '\n'), [&](std::string_view line) {
    return ShownWidth(line) <= static_cast<std::size_t>(screen.width);
  });
}

}  // namespace

bool NoTaskRan(const SimOutcome& outcome) {
  return std::ranges::all_of(outcome.runs, [](const Metrics& run) { return run.executed == 0; });
}

std::string SimTable(std::span<const SimOutcome> outcomes, const Screen& screen) {
  const std::vector<Quantity> quantities = QuantitiesOf(outcomes);
  std::vector<const Quantity*> all, main, details;
  for (const Quantity& each : quantities) {
    all.push_back(&each);
    (each.detail ? details : main).push_back(&each);
  }
  std::vector<std::string> labels;
  for (const SimOutcome& each : outcomes) labels.push_back(base::Printable(each.policy.label, 60));
  const std::string whole = TableOf(outcomes, labels, all, 20, screen);
  if (Fits(whole, screen)) return whole;
  const auto two_tables = [&] {
    return TableOf(outcomes, labels, main, 12, screen) + "\n" +
           TableOf(outcomes, labels, details, 12, screen);
  };
  const std::string text = two_tables();
  const auto is_whole = [&](const std::string& label) {
    return text.find("\n" + label + " ") != std::string::npos;
  };
  if (std::ranges::all_of(labels, is_whole)) return text;
  std::string list;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string letter = report::LetterOf(i);
    list += fmt::format("{}  {}\n", letter, labels[i]);
    labels[i] = letter;
  }
  return list + "\n" + two_tables();
}

}  // namespace carma::cli

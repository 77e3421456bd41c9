#include "cli/simulate/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/table.h"
#include "report/bounds.h"

namespace carma::cli {
namespace {

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

std::string Minutes(double seconds) {
  return fmt::format("{:.0f}", seconds / 60);
}

// "+1.5" of 0.015; never "-0.0".
std::string PercentText(double relative) {
  return fmt::format("{:+.1f}", std::round(relative * 1000) / 10 + 0.0);
}

// "-25.4 ±1.4", "~" before what is within the noise.
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

// Tasks that did not succeed, mean of all runs; they shorten a makespan without merit.
double Failed(const SimOutcome& outcome) {
  return MeanOf(outcome, [](const Metrics& run) {
    double others = 0;
    for (const auto& [state, count] : run.tasks_by_state) {
      if (state != core::TaskState::kSucceeded) others += static_cast<double>(count);
    }
    return others;
  });
}

}  // namespace

Change ChangeOf(std::span<const double> values, std::span<const double> reference) {
  std::vector<double> changes;
  changes.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    changes.push_back(reference[i] > 0 ? values[i] / reference[i] - 1 : 0);
  }
  Change change{.relative = report::EstimatedOf(changes)};
  const double error = change.relative.sd / std::sqrt(static_cast<double>(changes.size()));
  change.within_noise = changes.size() > 1 && std::abs(change.relative.mean) < 2 * error;
  return change;
}

std::string SimTable(std::span<const SimOutcome> outcomes, const Screen& screen) {
  std::vector<Column> columns{{"POLICY", false, 20}, {"MAKESPAN min", true}, {"CHANGE %", true},
                              {"ENERGY MJ", true},   {"CHANGE %", true},     {"OOM", true},
                              {"FAILED", true},      {"WAIT min", true},     {"RUN min", true},
                              {"JCT min", true},     {"SM %", true},         {"MEMORY", true},
                              {"SLOWDOWN", true},    {"TO BOUND %", true}};
  const bool users = std::ranges::any_of(
      outcomes, [](const SimOutcome& each) { return each.runs.front().jain.has_value(); });
  if (users) columns.insert(columns.end(), {{"JAIN", true}, {"WORST USER WAITS min", true}});
  Table table(std::move(columns));
  const SimOutcome& first = outcomes.front();
  for (const SimOutcome& outcome : outcomes) {
    const auto change = [&](double (*quantity)(const Metrics&)) {
      if (&outcome == &first) return std::string("-");
      return ChangeText(ChangeOf(Values(outcome, quantity), Values(first, quantity)));
    };
    const double makespan = MeanOf(outcome, Makespan);
    const double failed = Failed(outcome);
    // The bounds are those of the whole load.
    const double bound = failed > 0 ? 0 : report::TightestBound(outcome.runs.front().bounds);
    const auto mean = [&](double (*quantity)(const Metrics&)) { return MeanOf(outcome, quantity); };
    std::vector<Cell> cells{
        {base::Printable(outcome.policy.label, 60)},
        {Minutes(makespan)},
        {change(Makespan)},
        {fmt::format("{:.2f}", mean(Energy))},
        {change(Energy)},
        {OomText(outcome)},
        {failed > 0 ? fmt::format("{:.4g}", failed) : "-"},
        {Minutes(mean([](const Metrics& run) { return run.waiting.mean; }))},
        {Minutes(mean([](const Metrics& run) { return run.execution.mean; }))},
        {Minutes(mean([](const Metrics& run) { return run.jct.mean; }))},
        {fmt::format("{:.1f}",
                     mean([](const Metrics& run) { return run.sm_active.value_or(0); }) * 100)},
        {base::FormatMib(static_cast<std::int64_t>(
            mean([](const Metrics& run) { return run.memory_used_mib.value_or(0); })))},
        {outcome.runs.front().slowdown ? fmt::format("{:.2f}", mean([](const Metrics& run) {
                                                       return run.slowdown ? run.slowdown->mean : 1;
                                                     }))
                                       : "-"},
        {bound > 0 ? PercentText(makespan / bound - 1) : "-"}};
    if (users) {
      cells.push_back(
          {fmt::format("{:.2f}", mean([](const Metrics& run) { return run.jain.value_or(1); }))});
      cells.push_back(
          {Minutes(mean([](const Metrics& run) { return run.worst_user_waiting_s.value_or(0); }))});
    }
    table.Add(std::move(cells));
  }
  return table.Text(screen);
}

}  // namespace carma::cli

#include "report/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"

namespace carma::report {
namespace {

using Value = std::optional<double>;

std::string GibText(double mib) {
  return fmt::format("{:.1f} GiB", mib / 1024);
}
std::string PercentText(double fraction) {
  return fmt::format("{:.1f} %", fraction * 100);
}
std::string MegajouleError(double sd, double mean) {
  return fmt::format("{:.{}f} MJ", sd, mean < 1 ? 4 : 2);
}
std::string MegajouleText(double mj) {
  return MegajouleError(mj, mj);
}
std::string WattText(double w) {
  return fmt::format("{:.0f} W", w);
}
std::string TimesText(double factor) {
  return fmt::format("{:.2f}", factor);
}

Value Count(std::int64_t count) {
  return static_cast<double>(count);
}

// Returns nothing instead of 0 if no task was executed, because a 0 would look like a measured
// value.
Value Measured(const Metrics& m, double seconds) {
  return m.executed == 0 && seconds == 0 ? std::nullopt : Value(seconds);
}

const Line kLines[] = {
    {"trace total time", "trace_total_s", [](const Metrics& m) -> Value { return m.trace_total_s; },
     SpanText},
    {"waiting, mean", "waiting_mean_s",
     [](const Metrics& m) { return Measured(m, m.waiting.mean); }, SpanText},
    {"waiting, 95 %", "waiting_p95_s", [](const Metrics& m) { return Measured(m, m.waiting.p95); },
     SpanText},
    {"execution, mean", "execution_mean_s",
     [](const Metrics& m) { return Measured(m, m.execution.mean); }, SpanText},
    {"completion (JCT), mean", "jct_mean_s",
     [](const Metrics& m) { return Measured(m, m.jct.mean); }, SpanText},
    {"completion (JCT), 95 %", "jct_p95_s", [](const Metrics& m) { return Measured(m, m.jct.p95); },
     SpanText},
    {"slowdown, mean", "slowdown_mean",
     [](const Metrics& m) -> Value { return m.slowdown ? Value(m.slowdown->mean) : std::nullopt; },
     TimesText, false},
    {"slowdown, 95 %", "slowdown_p95",
     [](const Metrics& m) -> Value { return m.slowdown ? Value(m.slowdown->p95) : std::nullopt; },
     TimesText, false},
    {"execution time lost to checkpoints and requeues", "lost_share",
     [](const Metrics& m) { return m.lost_share; }, PercentText, false},
    {"users' stretch, Jain index", "jain", [](const Metrics& m) { return m.jain; }, TimesText,
     false},
    {"longest mean wait of any user", "worst_user_waiting_s",
     [](const Metrics& m) { return m.worst_user_waiting_s; }, SpanText, false},
    {"GPU memory in use, mean", "memory_used_mib",
     [](const Metrics& m) { return m.memory_used_mib; }, GibText},
    {"SM activity, mean", "sm_active", [](const Metrics& m) { return m.sm_active; }, PercentText,
     true, true},
    {"GPU energy", "energy_mj", [](const Metrics& m) { return m.energy_mj; }, MegajouleText, true,
     false, MegajouleError},
    {"GPU power, mean", "power_w", [](const Metrics& m) { return m.power_w; }, WattText},
    {"OOM crashes", "oom_crashes", [](const Metrics& m) { return Count(m.oom_crashes); },
     CountText},
    {"returns from a server to the cluster's queue", "requeues",
     [](const Metrics& m) { return m.requeues ? Count(*m.requeues) : std::nullopt; }, CountText,
     false},
    {"tasks", "tasks", [](const Metrics& m) { return Count(m.tasks); }, CountText},
};

// The value of each replay. Empty if the value is missing in any replay.
std::optional<std::vector<double>> ValuesOf(const Case& of, const Line& line) {
  std::vector<double> values;
  for (const Metrics* each : of.replays) {
    const Value value = line.value(*each);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// The 97.5 % quantile of Student's t distribution. freedom: degrees of freedom, rounded down; at
// least 1.
double StudentQuantile(double freedom) {
  constexpr std::array kFew{12.706, 4.303, 3.182};
  const double n = std::floor(freedom);
  if (n <= kFew.size()) return kFew[static_cast<std::size_t>(std::max(n, 1.0)) - 1];
  // Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun 26.7.5), accurate to
  // 0.01 for these degrees of freedom.
  return 1.95996 + 2.37227 / n + 2.82250 / (n * n) + 2.55585 / (n * n * n);
}

}  // namespace

std::string CountText(double value) {
  return fmt::format("{:.{}f}", value, value == std::floor(value) ? 0 : 1);
}

std::string SpanText(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  return base::FormatSpan(base::Duration(std::llround(seconds * 1000)));
}

std::string LetterOf(std::size_t number) {
  return std::string(1 + number / 26, static_cast<char>('A' + number % 26));
}

std::span<const Line> Lines() {
  return kLines;
}

const Line& LineOf(std::string_view key) {
  const auto* found = std::ranges::find(kLines, key, &Line::key);
  CARMA_CHECK(found != std::end(kLines), "the tables have no such metric");
  return *found;
}

std::vector<Case> CasesOf(std::span<const Metrics> runs) {
  std::vector<Case> cases;
  std::map<std::string, std::size_t> by_label;
  for (const Metrics& run : runs) {
    const auto known = by_label.find(run.label);
    if (!run.label.empty() && known != by_label.end()) {
      cases[known->second].replays.push_back(&run);
      continue;
    }
    by_label[run.label] = cases.size();
    cases.push_back({run.label, {&run}});
  }
  return cases;
}

Estimated EstimatedOf(std::span<const double> values) {
  Estimated estimated{.mean = 0, .sd = 0, .runs = values.size()};
  for (const double value : values) estimated.mean += value;
  estimated.mean /= static_cast<double>(values.size());
  if (values.size() < 2) return estimated;
  double squares = 0;
  for (const double value : values) squares += (value - estimated.mean) * (value - estimated.mean);
  estimated.sd = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return estimated;
}

std::optional<Estimated> Over(const Case& of, const Line& line) {
  const std::optional<std::vector<double>> values = ValuesOf(of, line);
  return values ? std::optional(EstimatedOf(*values)) : std::nullopt;
}

bool WithinNoise(const Estimated& a, const Estimated& b) {
  if (a.runs < 2 || b.runs < 2) return false;
  const double of_a = a.sd * a.sd / static_cast<double>(a.runs);
  const double of_b = b.sd * b.sd / static_cast<double>(b.runs);
  if (of_a + of_b <= 0) return false;
  // Welch's degrees of freedom, because the variances of the two cases may differ.
  const double freedom = (of_a + of_b) * (of_a + of_b) /
                         (of_a * of_a / static_cast<double>(a.runs - 1) +
                          of_b * of_b / static_cast<double>(b.runs - 1));
  return std::abs(a.mean - b.mean) < StudentQuantile(freedom) * std::sqrt(of_a + of_b);
}

std::string Text(const Line& line, const Estimated& value) {
  const std::string mean = line.text(value.mean);
  if (value.runs < 2 || value.sd == 0) return mean;
  return mean + " ± " + (line.error ? line.error(value.sd, value.mean) : line.text(value.sd));
}

Change ChangeOf(std::span<const double> values, std::span<const double> reference) {
  const double base = EstimatedOf(reference).mean;
  const double ratio = base > 0 ? EstimatedOf(values).mean / base : 1;
  // How far each run's value is from `ratio` times its reference, relative to the mean reference.
  std::vector<double> rests;
  rests.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    rests.push_back(base > 0 ? (values[i] - ratio * reference[i]) / base : 0);
  Change change{.relative = EstimatedOf(rests)};
  change.relative.mean = ratio - 1;
  const double error = change.relative.sd / std::sqrt(static_cast<double>(rests.size()));
  change.within_noise =
      rests.size() > 1 && std::abs(change.relative.mean) <
                              StudentQuantile(static_cast<double>(rests.size() - 1)) * error;
  return change;
}

std::optional<Change> ChangeOf(const Line& line, const Case& base, const Case& of) {
  const std::optional<std::vector<double>> values = ValuesOf(of, line);
  const std::optional<std::vector<double>> reference = ValuesOf(base, line);
  if (!values || !reference) return std::nullopt;
  const Estimated mean = EstimatedOf(*values), other = EstimatedOf(*reference);
  if (other.mean <= 0) return std::nullopt;
  if (values->size() == reference->size()) return ChangeOf(*values, *reference);
  return Change{{.mean = mean.mean / other.mean - 1, .sd = 0, .runs = 1}, WithinNoise(mean, other)};
}

std::string Difference(const Line& line, const Case& base, const Case& of) {
  const std::optional<Change> change = ChangeOf(line, base, of);
  if (!change) return "";
  const std::string text =
      line.share
          ? fmt::format("{:+.1f} points", (Over(of, line)->mean - Over(base, line)->mean) * 100)
          : fmt::format("{:+.1f} %", change->relative.mean * 100);
  return change->within_noise ? "(" + text + ")" : text;
}

std::string AboveBound(double bound_s, const Estimated& value) {
  return bound_s > 0 ? fmt::format("{:+.1f} %", (value.mean / bound_s - 1) * 100) : "";
}

std::vector<std::string> BoundNames(std::span<const Case> cases) {
  std::vector<std::string> names;
  for (const Case& each : cases) {
    for (const Bound& bound : each.replays.front()->bounds) {
      if (std::ranges::find(names, bound.name) == names.end()) names.push_back(bound.name);
    }
  }
  return names;
}

// The mean over the replays, because each replay stores its own bounds.
std::optional<double> BoundOf(const Case& of, const std::string& name) {
  double sum_s = 0;
  for (const Metrics* each : of.replays) {
    const auto found =
        std::ranges::find_if(each->bounds, [&](const Bound& bound) { return bound.name == name; });
    if (found == each->bounds.end()) return std::nullopt;
    sum_s += found->makespan_s;
  }
  return sum_s / static_cast<double>(of.replays.size());
}

}  // namespace carma::report

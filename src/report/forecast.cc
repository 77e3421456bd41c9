#include "report/forecast.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "report/tally.h"

namespace carma::report {

std::vector<Forecast> ForecastsOf(const core::TaskRecord& record) {
  std::vector<Forecast> forecasts;
  if (!core::IsFinal(record.state)) return forecasts;
  if (record.estimate && record.peak_mib > 0) {
    const auto promised = static_cast<double>(record.estimate->peak_mib);
    const std::optional<std::int64_t> likely = record.estimate->predicted_mib;
    forecasts.push_back({.what = "memory_mib",
                         .by = record.estimate->method,
                         .predicted = likely ? static_cast<double>(*likely) : promised,
                         .promised = promised,
                         .seen = static_cast<double>(record.peak_mib)});
  }
  // How long a task would have run that was stopped at its limit nobody knows.
  if (record.state == core::TaskState::kSucceeded && record.request.time_limit &&
      record.attempt.started && record.ended) {
    const double limit_s = base::Seconds(*record.request.time_limit);
    const core::Duration ran = *record.ended - *record.attempt.started;
    forecasts.push_back({.what = "duration_s",
                         .by = "time limit",
                         .predicted = limit_s,
                         .promised = limit_s,
                         .seen = base::Seconds(std::max(core::Duration::zero(), ran))});
  }
  return forecasts;
}

std::vector<ForecastMetrics> JudgeForecasts(std::span<const RunTask> tasks) {
  struct Judged {
    ForecastMetrics metrics;
    std::vector<double> ratios;
  };
  std::map<std::pair<std::string, std::string>, Judged> by_method;
  for (const RunTask& task : tasks) {
    for (const Forecast& each : task.forecasts) {
      if (each.predicted <= 0) continue;
      Judged& judged = by_method[{each.what, each.by}];
      judged.ratios.push_back(each.seen / each.predicted);
      if (!each.promised) continue;
      ++judged.metrics.promised;
      if (each.seen <= *each.promised) ++judged.metrics.kept;
    }
  }
  std::vector<ForecastMetrics> all;
  for (auto& [method, judged] : by_method) {
    judged.metrics.what = method.first;
    judged.metrics.by = method.second;
    judged.metrics.tasks = static_cast<std::int64_t>(judged.ratios.size());
    judged.metrics.ratio = SpreadOf(std::move(judged.ratios));
    all.push_back(std::move(judged.metrics));
  }
  return all;
}

}  // namespace carma::report

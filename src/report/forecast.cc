#include "report/forecast.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/words.h"
#include "core/values/task.h"
#include "report/tally.h"

namespace carma::report {
namespace {

constexpr double kLeastSlowdown = 1.01;

// Only `carma profile` measures the MPS parameters, so a profile without them must come from
// earlier runs.
std::string_view ProfiledBy(const core::Profile& profile) {
  return profile.mps ? "carma profile" : "history";
}

// The slowdown caused by the task's neighbours: predicted, and measured relative to running alone.
// Empty if the task had no neighbours or its solo run time is unknown.
std::optional<Forecast> SlowdownOf(const core::TaskRecord& record) {
  const auto& predicted = record.profile->alone;
  const auto& done = record.seen->alone;
  if (record.state != core::TaskState::kSucceeded || !predicted || !done) return std::nullopt;
  if (!record.attempt->launched || !record.ended) return std::nullopt;
  const double took_s = base::Seconds(*record.ended - *record.attempt->launched);
  const double done_s = base::Seconds(*done);
  if (*predicted <= core::Duration::zero() || done_s <= 0) return std::nullopt;
  if (took_s < kLeastSlowdown * done_s) return std::nullopt;
  return Forecast{.what = "slowdown",
                  .by = std::string(base::WordOf(record.attempt->sharing.method)),
                  .predicted = took_s / done_s,
                  .seen = took_s / base::Seconds(*predicted)};
}

}  // namespace

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
  if (record.profile->sm_active && record.seen->sm_active) {
    forecasts.push_back({.what = "sm_active",
                         .by = std::string(ProfiledBy(record.profile)),
                         .predicted = *record.profile->sm_active,
                         .seen = *record.seen->sm_active});
  }
  if (std::optional<Forecast> slowdown = SlowdownOf(record))
    forecasts.push_back(*std::move(slowdown));
  // A task that was stopped at its limit is excluded, because its full run time is unknown.
  if (record.state == core::TaskState::kSucceeded && record.request->time_limit &&
      record.attempt->started && record.ended) {
    const double limit_s = base::Seconds(*record.request->time_limit);
    const core::Duration ran = *record.ended - *record.attempt->started;
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

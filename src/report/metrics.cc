#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json.h"
#include "report/forecast.h"
#include "report/tally.h"

namespace carma::report {

using base::Duration;
using base::Json;
using base::JsonReader;
using base::Seconds;
using base::Time;
using core::TaskState;

namespace {

constexpr double kMax = 1e18;
constexpr std::size_t kMaxGroups = 1'000;
constexpr std::size_t kMaxUsers = 100'000;
constexpr std::size_t kMaxBounds = 100;
constexpr std::size_t kMaxForecasts = 1'000;

// The GPUs' points, cut at the ends of the tasks' span.
void AddGpus(const RunRecord& run, Time from, Time to, Tally& tally) {
  for (std::size_t gpu = 0; gpu < run.gpus.size(); ++gpu) {
    const std::vector<GpuPoint>& points = run.gpus[gpu].points;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (std::isnan(points[i].used_mib)) continue;
      const Time end = std::min(to, i + 1 < points.size() ? points[i + 1].at : run.to);
      const Duration length = end - std::max(from, points[i].at);
      tally.Add(GpuSpan{.gpu = static_cast<int>(gpu),
                        .length = length,
                        .used_mib = points[i].used_mib,
                        .sm_active = points[i].sm_active,
                        .energy_j = points[i].power_w * Seconds(length)});
    }
  }
}

Json SpreadJson(const Spread& spread) {
  return {
      {"mean", spread.mean}, {"median", spread.median}, {"p95", spread.p95}, {"max", spread.max}};
}
Json SpreadJson(const std::optional<Spread>& spread) {
  return spread ? SpreadJson(*spread) : Json(nullptr);
}
Json OrNull(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json GroupJson(const GroupMetrics& group) {
  return {{"name", group.name},
          {"tasks", group.tasks},
          {"executed", group.executed},
          {"oom_crashes", group.oom_crashes},
          {"waiting_s", SpreadJson(group.waiting)},
          {"execution_s", SpreadJson(group.execution)},
          {"jct_s", SpreadJson(group.jct)},
          {"slowdown", SpreadJson(group.slowdown)}};
}

Json UserJson(const UserMetrics& user) {
  return {{"name", user.name},
          {"tasks", user.tasks},
          {"gpu_s", user.gpu_s},
          {"waiting_mean_s", user.waiting_mean_s},
          {"stretch_mean", user.stretch_mean}};
}

Json ForecastJson(const ForecastMetrics& forecast) {
  return {{"what", forecast.what},         {"by", forecast.by},
          {"tasks", forecast.tasks},       {"seen_by_predicted", SpreadJson(forecast.ratio)},
          {"promised", forecast.promised}, {"kept", forecast.kept}};
}

// Reads the objects inside an object and keeps the first mistake of any of them.
class MetricsReader {
 public:
  explicit MetricsReader(const Json& json, std::string pointer)
      : pointer_(std::move(pointer)), in_(json, pointer_) {}
  JsonReader& in() { return in_; }

  // False if the value is absent or null.
  bool Get(const char* key, Spread& spread) {
    const Json* json = in_.Raw(key);
    if (json == nullptr || json->is_null()) return false;
    JsonReader inner(*json, pointer_ + "/" + key);
    inner.Get("mean", spread.mean, 0, kMax);
    inner.Get("median", spread.median, 0, kMax);
    inner.Get("p95", spread.p95, 0, kMax);
    inner.Get("max", spread.max, 0, kMax);
    Note(inner.error());
    return true;
  }
  void Get(const char* key, std::optional<Spread>& spread) {
    Spread found;
    if (Get(key, found)) spread = found;
  }
  void Get(const char* key, Time& time) {
    std::int64_t ms = base::ToMs(time);
    in_.Get(key, ms, -kMaxMs, kMaxMs);
    time = base::FromMs(ms);
  }
  // Calls `read` for each element with its own reader.
  template <class Read>
  void GetEach(const char* key, std::size_t most, Read read) {
    const Json* list = in_.Raw(key);
    if (list == nullptr || list->is_null()) return;
    if (!list->is_array() || list->size() > most) {
      return in_.Complain(key, "a list of at most " + std::to_string(most));
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      MetricsReader each((*list)[i], pointer_ + "/" + key + "/" + std::to_string(i));
      read(each);
      Note(each.error());
    }
  }
  std::optional<base::Error> error() const { return in_.error() ? in_.error() : problem_; }

 private:
  void Note(const std::optional<base::Error>& problem) {
    if (!problem_) problem_ = problem;
  }

  std::string pointer_;
  JsonReader in_;
  std::optional<base::Error> problem_;
};

void GetCounts(JsonReader& in, Metrics& metrics) {
  const Json* counts = in.Raw("tasks_by_state");
  if (counts == nullptr) return;
  if (!counts->is_object()) return in.Complain("tasks_by_state", "an object");
  std::map<TaskState, std::int64_t> by_state;
  for (const auto& [name, count] : counts->items()) {
    const std::optional<TaskState> state = core::ParseTaskState(name);
    if (!state || !count.is_number_integer()) {
      return in.Complain("tasks_by_state", "numbers by task state");
    }
    by_state[*state] = count.get<std::int64_t>();
  }
  metrics.tasks_by_state.assign(by_state.begin(), by_state.end());
}

void GetGroup(MetricsReader& in, GroupMetrics& group) {
  in.in().Get("name", group.name);
  in.in().Get("tasks", group.tasks, 0, INT64_MAX);
  in.in().Get("executed", group.executed, 0, INT64_MAX);
  in.in().Get("oom_crashes", group.oom_crashes, 0, INT64_MAX);
  in.Get("waiting_s", group.waiting);
  in.Get("execution_s", group.execution);
  in.Get("jct_s", group.jct);
  in.Get("slowdown", group.slowdown);
}

void GetUser(MetricsReader& in, UserMetrics& user) {
  in.in().Get("name", user.name);
  in.in().Get("tasks", user.tasks, 0, INT64_MAX);
  in.in().Get("gpu_s", user.gpu_s, 0, kMax);
  in.in().Get("waiting_mean_s", user.waiting_mean_s, 0, kMax);
  in.in().Get("stretch_mean", user.stretch_mean, 0, kMax);
}

void GetForecast(MetricsReader& in, ForecastMetrics& forecast) {
  in.in().Get("what", forecast.what);
  in.in().Get("by", forecast.by);
  in.in().Get("tasks", forecast.tasks, 0, INT64_MAX);
  in.Get("seen_by_predicted", forecast.ratio);
  in.in().Get("promised", forecast.promised, 0, INT64_MAX);
  in.in().Get("kept", forecast.kept, 0, INT64_MAX);
}

}  // namespace

Metrics Compute(const RunRecord& run) {
  Tally tally;
  for (const RunTask& task : run.tasks) tally.Add(OutcomeOf(task));
  if (tally.first_submitted()) {
    AddGpus(run, *tally.first_submitted(), *tally.last_ended(), tally);
  }
  Metrics metrics = tally.Finish();
  metrics.label = run.label;
  metrics.provenance = run.provenance;
  metrics.simulated = run.simulated;
  metrics.bounds = run.bounds;
  metrics.forecasts = JudgeForecasts(run.tasks);
  return metrics;
}

Json ToJson(const Metrics& metrics) {
  Json by_state = Json::object();
  for (const auto& [state, count] : metrics.tasks_by_state) {
    by_state[std::string(core::TaskStateName(state))] = count;
  }
  Json groups = Json::array();
  for (const GroupMetrics& group : metrics.groups) groups.push_back(GroupJson(group));
  Json forecasts = Json::array();
  for (const ForecastMetrics& each : metrics.forecasts) forecasts.push_back(ForecastJson(each));
  Json users = Json::array();
  for (const UserMetrics& each : metrics.users) users.push_back(UserJson(each));
  Json bounds = Json::array();
  for (const Bound& bound : metrics.bounds) {
    bounds.push_back({{"name", bound.name}, {"makespan_s", bound.makespan_s}});
  }
  return {{"label", metrics.label},
          {"provenance", metrics.provenance},
          {"simulated", metrics.simulated},
          {"tasks", metrics.tasks},
          {"tasks_by_state", std::move(by_state)},
          {"executed", metrics.executed},
          {"oom_crashes", metrics.oom_crashes},
          {"attempts", metrics.attempts},
          {"requeues", metrics.requeues ? Json(*metrics.requeues) : Json()},
          {"first_submitted_ms", base::ToMs(metrics.first_submitted)},
          {"last_ended_ms", base::ToMs(metrics.last_ended)},
          {"trace_total_s", metrics.trace_total_s},
          {"waiting_s", SpreadJson(metrics.waiting)},
          {"execution_s", SpreadJson(metrics.execution)},
          {"jct_s", SpreadJson(metrics.jct)},
          {"slowdown", SpreadJson(metrics.slowdown)},
          {"groups", std::move(groups)},
          {"forecasts", std::move(forecasts)},
          {"users", std::move(users)},
          {"lost_share", OrNull(metrics.lost_share)},
          {"jain", OrNull(metrics.jain)},
          {"worst_user_waiting_s", OrNull(metrics.worst_user_waiting_s)},
          {"gpus", metrics.gpus},
          {"memory_used_mib", OrNull(metrics.memory_used_mib)},
          {"sm_active", OrNull(metrics.sm_active)},
          {"energy_mj", OrNull(metrics.energy_mj)},
          {"power_w", OrNull(metrics.power_w)},
          {"gpu_coverage", metrics.gpu_coverage},
          {"bounds", std::move(bounds)}};
}

base::Result<Metrics> FromJson(const Json& json) {
  Metrics metrics;
  MetricsReader reader(json, "");
  JsonReader& in = reader.in();
  in.Get("label", metrics.label);
  in.Get("provenance", metrics.provenance);
  in.Get("simulated", metrics.simulated);
  in.Get("tasks", metrics.tasks, 0, INT64_MAX);
  GetCounts(in, metrics);
  in.Get("executed", metrics.executed, 0, INT64_MAX);
  in.Get("oom_crashes", metrics.oom_crashes, 0, INT64_MAX);
  in.Get("attempts", metrics.attempts, 0, INT64_MAX);
  in.Get("requeues", metrics.requeues, 0, INT64_MAX);
  reader.Get("first_submitted_ms", metrics.first_submitted);
  reader.Get("last_ended_ms", metrics.last_ended);
  if (!in.Get("trace_total_s", metrics.trace_total_s, 0, kMax)) {
    in.Complain("trace_total_s", "the seconds of the whole run");
  }
  reader.Get("waiting_s", metrics.waiting);
  reader.Get("execution_s", metrics.execution);
  reader.Get("jct_s", metrics.jct);
  reader.Get("slowdown", metrics.slowdown);
  reader.GetEach("groups", kMaxGroups,
                 [&](MetricsReader& each) { GetGroup(each, metrics.groups.emplace_back()); });
  reader.GetEach("forecasts", kMaxForecasts,
                 [&](MetricsReader& each) { GetForecast(each, metrics.forecasts.emplace_back()); });
  reader.GetEach("users", kMaxUsers,
                 [&](MetricsReader& each) { GetUser(each, metrics.users.emplace_back()); });
  in.Get("lost_share", metrics.lost_share, 0, kMax);
  in.Get("jain", metrics.jain, 0, 1 + 1e-9);
  in.Get("worst_user_waiting_s", metrics.worst_user_waiting_s, 0, kMax);
  in.Get("gpus", metrics.gpus, 0, 1'000'000);
  in.Get("memory_used_mib", metrics.memory_used_mib, 0, kMax);
  in.Get("sm_active", metrics.sm_active, 0, 1);
  in.Get("energy_mj", metrics.energy_mj, 0, kMax);
  in.Get("power_w", metrics.power_w, 0, kMax);
  in.Get("gpu_coverage", metrics.gpu_coverage, 0, kMax);
  reader.GetEach("bounds", kMaxBounds, [&](MetricsReader& each) {
    Bound& bound = metrics.bounds.emplace_back();
    each.in().Get("name", bound.name);
    each.in().Get("makespan_s", bound.makespan_s, 0, kMax);
  });
  if (reader.error()) return std::unexpected(*reader.error());
  return metrics;
}

std::string ToJsonText(const Metrics& metrics) {
  return base::DumpJson(ToJson(metrics));
}

base::Result<Metrics> FromJsonText(const std::string& text) {
  base::Result<Json> json = base::ParseJson(text);
  if (!json) return std::unexpected(json.error());
  return FromJson(*json);
}

}  // namespace carma::report

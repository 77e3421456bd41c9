#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"

namespace carma::report {

using base::Duration;
using base::Json;
using base::JsonReader;
using base::Seconds;
using base::Time;
using core::TaskState;

namespace {

constexpr double kMax = 1e18;

Duration Overlap(Time from, Time to, Time low, Time high) {
  return std::max(Duration::zero(), std::min(to, high) - std::max(from, low));
}

// Time of each task in execution, from its changes of state.
class Executions {
 public:
  explicit Executions(std::span<const store::StoredEvent> events) {
    for (const store::StoredEvent& event : events) {
      if (event.kind != store::EventKind::kState || !event.task) continue;
      const std::optional<TaskState> state = core::ParseTaskState(event.what);
      if (state) Step(lives_[*event.task], *state, event.when);
    }
  }

  // Empty: its process never ran.
  std::optional<Duration> Of(const core::TaskRecord& record) const {
    const auto found = lives_.find(record.id);
    if (found == lives_.end() || !found->second.ran) {
      if (!record.started || !record.ended) return std::nullopt;
      return std::max(Duration::zero(), *record.ended - *record.started);
    }
    Duration total = found->second.total;
    // Its end is in the record even if the event is not there yet.
    if (found->second.running_since && record.ended) {
      total += std::max(Duration::zero(), *record.ended - *found->second.running_since);
    }
    return total;
  }

 private:
  struct Life {
    bool ran = false;
    std::optional<Time> running_since;
    Duration total{};
  };
  static void Step(Life& life, TaskState state, Time when) {
    const bool alive = state == TaskState::kRunning || state == TaskState::kStopping;
    if (state == TaskState::kRunning) life.ran = true;
    if (alive && state == TaskState::kRunning && !life.running_since) life.running_since = when;
    if (alive || !life.running_since) return;
    life.total += std::max(Duration::zero(), when - *life.running_since);
    life.running_since.reset();
  }

  std::map<core::TaskId, Life> lives_;
};

double NearestRank(const std::vector<double>& sorted, double fraction) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size()) - 1e-9));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  return {.mean = sum / static_cast<double>(values.size()),
          .median = NearestRank(values, 0.5),
          .p95 = NearestRank(values, 0.95),
          .max = values.back()};
}

void CountTasks(std::span<const store::StoredTask> tasks, Metrics& metrics) {
  std::map<TaskState, std::int64_t> by_state;
  for (const store::StoredTask& task : tasks) {
    ++by_state[task.record.state];
    metrics.oom_crashes += task.record.ooms;
    metrics.attempts += task.record.attempt;
  }
  metrics.tasks = static_cast<std::int64_t>(tasks.size());
  metrics.tasks_by_state.assign(by_state.begin(), by_state.end());
}

void MeasureTimes(std::span<const store::StoredTask> tasks, const Executions& executions,
                  Metrics& metrics) {
  std::vector<double> waiting, execution, jct;
  std::optional<Time> first, last;
  for (const store::StoredTask& task : tasks) {
    const core::TaskRecord& record = task.record;
    if (!core::IsFinal(record.state) || !record.ended) continue;
    first = std::min(first.value_or(record.submitted), record.submitted);
    last = std::max(last.value_or(*record.ended), *record.ended);
    const std::optional<Duration> executed = executions.Of(record);
    if (!executed) continue;
    const Duration whole = std::max(*record.ended - record.submitted, *executed);
    execution.push_back(Seconds(*executed));
    jct.push_back(Seconds(whole));
    waiting.push_back(Seconds(whole - *executed));
  }
  metrics.executed = static_cast<std::int64_t>(jct.size());
  metrics.waiting = SpreadOf(std::move(waiting));
  metrics.execution = SpreadOf(std::move(execution));
  metrics.jct = SpreadOf(std::move(jct));
  if (!first) return;
  metrics.first_submitted = *first;
  metrics.last_ended = *last;
  metrics.trace_total_s = Seconds(*last - *first);
}

void MeasureGpus(std::span<const store::GpuUsage> usage, Metrics& metrics) {
  std::set<std::string> gpus;
  double covered_s = 0, mib_s = 0, sm_s = 0, sm_covered_s = 0, energy_j = 0;
  bool energy_known = true;
  for (const store::GpuUsage& row : usage) {
    const double overlap_s =
        Seconds(Overlap(row.from, row.to, metrics.first_submitted, metrics.last_ended));
    if (overlap_s <= 0) continue;
    gpus.insert(row.gpu_uuid);
    covered_s += overlap_s;
    mib_s += row.used_mib * overlap_s;
    if (!std::isnan(row.sm_active)) {
      sm_s += row.sm_active * overlap_s;
      sm_covered_s += overlap_s;
    }
    // A sum with a hole would look like a saving.
    energy_known = energy_known && !std::isnan(row.energy_j);
    energy_j += row.energy_j * overlap_s / Seconds(row.to - row.from);
  }
  metrics.gpus = static_cast<int>(gpus.size());
  if (gpus.empty()) return;
  const auto gpu_count = static_cast<double>(gpus.size());
  metrics.gpu_coverage = covered_s / (gpu_count * metrics.trace_total_s);
  metrics.memory_used_mib = mib_s / covered_s;
  if (sm_covered_s > 0) metrics.sm_active = sm_s / sm_covered_s;
  if (!energy_known) return;
  metrics.energy_mj = energy_j / 1e6;
  metrics.power_w = energy_j / (covered_s / gpu_count);
}

Json SpreadJson(const Spread& spread) {
  return {
      {"mean", spread.mean}, {"median", spread.median}, {"p95", spread.p95}, {"max", spread.max}};
}

Json OrNull(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void GetSpread(JsonReader& in, const char* key, Spread& spread,
               std::optional<base::Error>& problem) {
  const Json* json = in.Raw(key);
  if (json == nullptr) return;
  JsonReader inner(*json, std::string("/") + key);
  inner.Get("mean", spread.mean, 0, kMax);
  inner.Get("median", spread.median, 0, kMax);
  inner.Get("p95", spread.p95, 0, kMax);
  inner.Get("max", spread.max, 0, kMax);
  if (inner.error() && !problem) problem = inner.error();
}

void GetTime(JsonReader& in, const char* key, Time& time) {
  std::int64_t ms = base::ToMs(time);
  in.Get(key, ms, INT64_MIN, INT64_MAX);
  time = base::FromMs(ms);
}

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

}  // namespace

Metrics Compute(std::string label, std::span<const store::StoredTask> tasks,
                std::span<const store::StoredEvent> events,
                std::span<const store::GpuUsage> usage) {
  Metrics metrics;
  metrics.label = std::move(label);
  CountTasks(tasks, metrics);
  MeasureTimes(tasks, Executions(events), metrics);
  MeasureGpus(usage, metrics);
  return metrics;
}

Json ToJson(const Metrics& metrics) {
  Json by_state = Json::object();
  for (const auto& [state, count] : metrics.tasks_by_state) {
    by_state[std::string(core::TaskStateName(state))] = count;
  }
  return {{"label", metrics.label},
          {"tasks", metrics.tasks},
          {"tasks_by_state", std::move(by_state)},
          {"executed", metrics.executed},
          {"oom_crashes", metrics.oom_crashes},
          {"attempts", metrics.attempts},
          {"first_submitted_ms", base::ToMs(metrics.first_submitted)},
          {"last_ended_ms", base::ToMs(metrics.last_ended)},
          {"trace_total_s", metrics.trace_total_s},
          {"waiting_s", SpreadJson(metrics.waiting)},
          {"execution_s", SpreadJson(metrics.execution)},
          {"jct_s", SpreadJson(metrics.jct)},
          {"gpus", metrics.gpus},
          {"memory_used_mib", OrNull(metrics.memory_used_mib)},
          {"sm_active", OrNull(metrics.sm_active)},
          {"energy_mj", OrNull(metrics.energy_mj)},
          {"power_w", OrNull(metrics.power_w)},
          {"gpu_coverage", metrics.gpu_coverage}};
}

base::Result<Metrics> FromJson(const Json& json) {
  Metrics metrics;
  JsonReader in(json, "");
  std::optional<base::Error> problem;
  in.Get("label", metrics.label);
  in.Get("tasks", metrics.tasks, 0, INT64_MAX);
  GetCounts(in, metrics);
  in.Get("executed", metrics.executed, 0, INT64_MAX);
  in.Get("oom_crashes", metrics.oom_crashes, 0, INT64_MAX);
  in.Get("attempts", metrics.attempts, 0, INT64_MAX);
  GetTime(in, "first_submitted_ms", metrics.first_submitted);
  GetTime(in, "last_ended_ms", metrics.last_ended);
  if (!in.Get("trace_total_s", metrics.trace_total_s, 0, kMax)) {
    in.Complain("trace_total_s", "the seconds of the whole run");
  }
  GetSpread(in, "waiting_s", metrics.waiting, problem);
  GetSpread(in, "execution_s", metrics.execution, problem);
  GetSpread(in, "jct_s", metrics.jct, problem);
  in.Get("gpus", metrics.gpus, 0, 1'000'000);
  in.Get("memory_used_mib", metrics.memory_used_mib, 0, kMax);
  in.Get("sm_active", metrics.sm_active, 0, 1);
  in.Get("energy_mj", metrics.energy_mj, 0, kMax);
  in.Get("power_w", metrics.power_w, 0, kMax);
  in.Get("gpu_coverage", metrics.gpu_coverage, 0, kMax);
  if (in.error()) return std::unexpected(*in.error());
  if (problem) return std::unexpected(*problem);
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

#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/fields_json.h"
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

// A GPU's point holds until its next point. Adds the parts of these spans that lie between `from`
// and `to`.
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

void GetCounts(JsonReader& in, Metrics& metrics) {
  const Json* counts = in.Raw("tasks_by_state");
  if (counts == nullptr) return;
  if (!counts->is_object()) return in.Complain("tasks_by_state", "an object");
  std::map<TaskState, std::int64_t> by_state;
  for (const auto& [name, count] : counts->items()) {
    const std::optional<TaskState> state = core::ParseTaskState(name);
    if (!state || !count.is_number_integer())
      return in.Complain("tasks_by_state", "an object with one number for each task state");
    by_state[*state] = count.get<std::int64_t>();
  }
  metrics.tasks_by_state.assign(by_state.begin(), by_state.end());
}

// Writes null for means without a single executed task, because a 0 would look like a measured
// value.
void ClearUnmeasured(Json& part) {
  for (const char* key : {"waiting_s", "execution_s", "jct_s"}) {
    if (part["executed"] == 0 && part[key]["max"] == 0) part[key] = nullptr;
  }
}

}  // namespace

Metrics Compute(const RunRecord& run) {
  Tally tally;
  for (const RunTask& task : run.tasks) tally.Add(OutcomeOf(task));
  if (tally.first_submitted()) AddGpus(run, *tally.first_submitted(), *tally.last_ended(), tally);
  Metrics metrics = tally.Finish();
  metrics.label = run.label;
  metrics.provenance = run.provenance;
  metrics.simulated = run.simulated;
  metrics.bounds = run.bounds;
  metrics.forecasts = JudgeForecasts(run.tasks);
  return metrics;
}

Json ToJson(const Metrics& metrics) {
  Json json = base::FieldsToJson(metrics, base::Absent::kNull);
  ClearUnmeasured(json);
  for (Json& group : json["groups"]) ClearUnmeasured(group);
  Json& by_state = json["tasks_by_state"] = Json::object();
  for (const auto& [state, count] : metrics.tasks_by_state)
    by_state[std::string(core::TaskStateName(state))] = count;
  return json;
}

Result<Metrics> FromJson(const Json& json) {
  Metrics metrics;
  JsonReader in(json, "");
  base::FieldReader fields(in, base::Unknown::kPassedOver);
  Metrics::VisitFields(fields, metrics);
  GetCounts(in, metrics);
  if (in.error()) return std::unexpected(*in.error());
  return metrics;
}

std::string ToJsonText(const Metrics& metrics) {
  return base::DumpJson(ToJson(metrics));
}

}  // namespace carma::report

#include "api/views.h"

#include <limits>

#include "base/json.h"

namespace carma::api {
namespace {

using base::Json;
using base::JsonReader;
using base::Result;

constexpr std::int64_t kAnyLow = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::size_t kMaxText = 1 << 20;
constexpr std::size_t kMaxItems = 100'000;

template <class T>
Json Optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void Get(JsonReader& in, const char* key, std::uint64_t& target) {
  std::int64_t value = 0;
  if (in.Get(key, value, 0, kAny)) target = static_cast<std::uint64_t>(value);
}

void Get(JsonReader& in, const char* key, std::optional<std::uint64_t>& target) {
  std::int64_t value = 0;
  if (in.Get(key, value, 0, kAny)) target = static_cast<std::uint64_t>(value);
}

void Get(JsonReader& in, const char* key, std::uint32_t& target) {
  std::int64_t value = 0;
  if (in.Get(key, value, 0, UINT32_MAX)) target = static_cast<std::uint32_t>(value);
}

void Get(JsonReader& in, const char* key, std::optional<int>& target) {
  std::int64_t value = 0;
  if (in.Get(key, value, INT32_MIN, INT32_MAX)) target = static_cast<int>(value);
}

void Get(JsonReader& in, const char* key, std::vector<std::int64_t>& target) {
  const Json* list = in.Raw(key);
  if (!list) return;
  if (!list->is_array() || list->size() > kMaxItems) return in.Complain(key, "a list of numbers");
  for (const Json& item : *list) {
    if (!item.is_number_integer()) return in.Complain(key, "a list of whole numbers");
    target.push_back(item.get<std::int64_t>());
  }
}

void Get(JsonReader& in, const char* key, std::vector<double>& target) {
  const Json* list = in.Raw(key);
  if (!list) return;
  if (!list->is_array() || list->size() > kMaxItems) return in.Complain(key, "a list of numbers");
  for (const Json& item : *list) {
    if (!item.is_number()) return in.Complain(key, "a list of numbers");
    target.push_back(item.get<double>());
  }
}

// A list of objects, each read by `read`.
template <class T>
std::optional<base::Error> GetList(JsonReader& in, const char* key, std::vector<T>& target,
                                   Result<T> (*read)(const Json&)) {
  const Json* list = in.Raw(key);
  if (!list) return std::nullopt;
  if (!list->is_array() || list->size() > kMaxItems) {
    in.Complain(key, "a list of objects");
    return std::nullopt;
  }
  for (const Json& item : *list) {
    auto value = read(item);
    if (!value) {
      return base::Wrap(value.error(), std::string("/") + key + "/" + std::to_string(target.size()))
          .error();
    }
    target.push_back(std::move(*value));
  }
  return std::nullopt;
}

template <class T>
Result<T> Finish(const JsonReader& in, T view) {
  if (in.error()) return std::unexpected(*in.error());
  return view;
}

Json ToJson(const GpuTaskView& view) {
  return {{"id", view.id},
          {"user", view.user},
          {"name", view.name},
          {"claim_mib", view.claim_mib},
          {"observed_mib", view.observed_mib},
          {"peak_mib", view.peak_mib},
          {"sharing", view.sharing},
          {"sm_active", Optional(view.sm_active)},
          {"sm_active_by", view.sm_active_by},
          {"idle_since_ms", Optional(view.idle_since_ms)}};
}

Result<GpuTaskView> GpuTaskViewFromJson(const Json& json) {
  GpuTaskView view;
  JsonReader in(json, "");
  Get(in, "id", view.id);
  in.Get("user", view.user);
  in.Get("name", view.name);
  in.Get("claim_mib", view.claim_mib, kAnyLow, kAny);
  in.Get("observed_mib", view.observed_mib, kAnyLow, kAny);
  in.Get("peak_mib", view.peak_mib, kAnyLow, kAny);
  in.Get("sharing", view.sharing);
  in.Get("sm_active", view.sm_active, -kAnyNumber, kAnyNumber);
  in.Get("sm_active_by", view.sm_active_by);
  in.Get("idle_since_ms", view.idle_since_ms, kAnyLow, kAny);
  return Finish(in, std::move(view));
}

Json ToJson(const ForeignView& view) {
  return {{"pid", view.pid},
          {"user", view.user},
          {"command", view.command},
          {"used_mib", Optional(view.used_mib)}};
}

Result<ForeignView> ForeignViewFromJson(const Json& json) {
  ForeignView view;
  JsonReader in(json, "");
  in.Get("pid", view.pid, 0, kAny);
  in.Get("user", view.user);
  in.Get("command", view.command, kMaxText);
  in.Get("used_mib", view.used_mib, kAnyLow, kAny);
  return Finish(in, std::move(view));
}

Json ToJson(const GpuView::Metric& view) {
  return {{"name", view.name}, {"value", view.value}, {"source", view.source}};
}

Result<GpuView::Metric> MetricFromJson(const Json& json) {
  GpuView::Metric view;
  JsonReader in(json, "");
  in.Get("name", view.name);
  in.Get("value", view.value, -kAnyNumber, kAnyNumber);
  in.Get("source", view.source);
  return Finish(in, std::move(view));
}

Json ToJson(const GpuHistoryView::Point& view) {
  return {{"from_ms", view.from_ms},
          {"to_ms", view.to_ms},
          {"sm_active", Optional(view.sm_active)},
          {"sm_peak", Optional(view.sm_peak)},
          {"dram_active", Optional(view.dram_active)},
          {"used_mib", view.used_mib},
          {"used_peak_mib", Optional(view.used_peak_mib)},
          {"power_w", Optional(view.power_w)},
          {"tasks", view.tasks}};
}

Result<GpuHistoryView::Point> PointFromJson(const Json& json) {
  GpuHistoryView::Point view;
  JsonReader in(json, "");
  in.Get("from_ms", view.from_ms, kAnyLow, kAny);
  in.Get("to_ms", view.to_ms, kAnyLow, kAny);
  in.Get("sm_active", view.sm_active, -kAnyNumber, kAnyNumber);
  in.Get("sm_peak", view.sm_peak, -kAnyNumber, kAnyNumber);
  in.Get("dram_active", view.dram_active, -kAnyNumber, kAnyNumber);
  in.Get("used_mib", view.used_mib, -kAnyNumber, kAnyNumber);
  in.Get("used_peak_mib", view.used_peak_mib, -kAnyNumber, kAnyNumber);
  in.Get("power_w", view.power_w, -kAnyNumber, kAnyNumber);
  in.Get("tasks", view.tasks, 0, INT32_MAX);
  return Finish(in, std::move(view));
}

Json ToJson(const VerdictView& view) {
  return {{"gpu", view.gpu},
          {"fit", view.fit},
          {"reason", view.reason},
          {"reason_text", view.reason_text}};
}

Result<VerdictView> VerdictViewFromJson(const Json& json) {
  VerdictView view;
  JsonReader in(json, "");
  in.Get("gpu", view.gpu, 0, kAny);
  in.Get("fit", view.fit);
  in.Get("reason", view.reason);
  in.Get("reason_text", view.reason_text, kMaxText);
  return Finish(in, std::move(view));
}

Json ToJson(const RunView& view) {
  return {{"task", view.task},
          {"when_ms", view.when_ms},
          {"gpu_type", view.gpu_type},
          {"method", view.method},
          {"predicted_mib", Optional(view.predicted_mib)},
          {"promised_mib", Optional(view.promised_mib)},
          {"measured_mib", view.measured_mib},
          {"ran_out", view.ran_out}};
}

Result<RunView> RunViewFromJson(const Json& json) {
  RunView view;
  JsonReader in(json, "");
  Get(in, "task", view.task);
  in.Get("when_ms", view.when_ms, kAnyLow, kAny);
  in.Get("gpu_type", view.gpu_type);
  in.Get("method", view.method);
  in.Get("predicted_mib", view.predicted_mib, 0, kAny);
  in.Get("promised_mib", view.promised_mib, 0, kAny);
  in.Get("measured_mib", view.measured_mib, 0, kAny);
  in.Get("ran_out", view.ran_out);
  return Finish(in, std::move(view));
}

template <class T>
Json List(const std::vector<T>& views) {
  Json list = Json::array();
  for (const T& view : views) list.push_back(ToJson(view));
  return list;
}

}  // namespace

Json ToJson(const TaskView& view) {
  return {{"id", view.id},
          {"name", view.name},
          {"user", view.user},
          {"uid", view.uid},
          {"state", view.state},
          {"reason", view.reason},
          {"reason_text", view.reason_text},
          {"gpus", view.gpus},
          {"gpu_indices", view.gpu_indices},
          {"gpu_uuids", view.gpu_uuids},
          {"claim_mib", view.claim_mib},
          {"predicted_mib", Optional(view.predicted_mib)},
          {"bound_mib", Optional(view.bound_mib)},
          {"estimate_method", view.estimate_method},
          {"estimate_remarks", view.estimate_remarks},
          {"observed_mib", Optional(view.observed_mib)},
          {"peak_mib", view.peak_mib},
          {"exclusive", view.exclusive},
          {"priority", view.priority},
          {"attempt", view.attempt},
          {"ooms", view.ooms},
          {"queue", view.queue},
          {"submitted_ms", view.submitted_ms},
          {"first_start_ms", Optional(view.first_start_ms)},
          {"launched_ms", Optional(view.launched_ms)},
          {"ended_ms", Optional(view.ended_ms)},
          {"time_limit_s", Optional(view.time_limit_s)},
          {"exit_code", Optional(view.exit_code)},
          {"signal", Optional(view.signal)},
          {"exit_detail", view.exit_detail},
          {"placement_reason", view.placement_reason},
          {"stdout_path", view.stdout_path},
          {"stderr_path", view.stderr_path},
          {"workdir", view.workdir},
          {"command", view.command},
          {"array_id", Optional(view.array_id)},
          {"array_index", Optional(view.array_index)},
          {"pid", Optional(view.pid)},
          {"comment", view.comment},
          {"sharing", view.sharing},
          {"memory_limit_mib", view.memory_limit_mib},
          {"thread_percent", view.thread_percent},
          {"sharing_note", view.sharing_note},
          {"sm_share", Optional(view.sm_share)},
          {"idle_since_ms", Optional(view.idle_since_ms)}};
}

Result<TaskView> TaskViewFromJson(const Json& json) {
  TaskView view;
  JsonReader in(json, "");
  Get(in, "id", view.id);
  in.Get("name", view.name);
  in.Get("user", view.user);
  Get(in, "uid", view.uid);
  in.Get("state", view.state);
  in.Get("reason", view.reason);
  in.Get("reason_text", view.reason_text, kMaxText);
  in.Get("gpus", view.gpus, 0, INT32_MAX);
  Get(in, "gpu_indices", view.gpu_indices);
  in.Get("gpu_uuids", view.gpu_uuids);
  in.Get("claim_mib", view.claim_mib, kAnyLow, kAny);
  in.Get("predicted_mib", view.predicted_mib, kAnyLow, kAny);
  in.Get("bound_mib", view.bound_mib, kAnyLow, kAny);
  in.Get("estimate_method", view.estimate_method);
  in.Get("estimate_remarks", view.estimate_remarks);
  in.Get("observed_mib", view.observed_mib, kAnyLow, kAny);
  in.Get("peak_mib", view.peak_mib, kAnyLow, kAny);
  in.Get("exclusive", view.exclusive);
  in.Get("priority", view.priority, kAnyLow, kAny);
  in.Get("attempt", view.attempt, 0, INT32_MAX);
  in.Get("ooms", view.ooms, 0, INT32_MAX);
  in.Get("queue", view.queue);
  in.Get("submitted_ms", view.submitted_ms, kAnyLow, kAny);
  in.Get("first_start_ms", view.first_start_ms, kAnyLow, kAny);
  in.Get("launched_ms", view.launched_ms, kAnyLow, kAny);
  in.Get("ended_ms", view.ended_ms, kAnyLow, kAny);
  in.Get("time_limit_s", view.time_limit_s, -kAnyNumber, kAnyNumber);
  Get(in, "exit_code", view.exit_code);
  Get(in, "signal", view.signal);
  in.Get("exit_detail", view.exit_detail, kMaxText);
  in.Get("placement_reason", view.placement_reason, kMaxText);
  in.Get("stdout_path", view.stdout_path, kMaxText);
  in.Get("stderr_path", view.stderr_path, kMaxText);
  in.Get("workdir", view.workdir, kMaxText);
  in.Get("command", view.command);
  Get(in, "array_id", view.array_id);
  in.Get("array_index", view.array_index, kAnyLow, kAny);
  Get(in, "pid", view.pid);
  in.Get("comment", view.comment, kMaxText);
  in.Get("sharing", view.sharing);
  in.Get("memory_limit_mib", view.memory_limit_mib, kAnyLow, kAny);
  in.Get("thread_percent", view.thread_percent, 0, INT32_MAX);
  in.Get("sharing_note", view.sharing_note, kMaxText);
  in.Get("sm_share", view.sm_share, -kAnyNumber, kAnyNumber);
  in.Get("idle_since_ms", view.idle_since_ms, kAnyLow, kAny);
  return Finish(in, std::move(view));
}

Json ToJson(const GpuView& view) {
  return {{"index", view.index},
          {"uuid", view.uuid},
          {"name", view.name},
          {"state", view.state},
          {"trouble", view.trouble},
          {"total_mib", view.total_mib},
          {"reserved_mib", view.reserved_mib},
          {"used_mib", view.used_mib},
          {"claimed_mib", view.claimed_mib},
          {"foreign_mib", view.foreign_mib},
          {"free_mib", view.free_mib},
          {"sm_active", Optional(view.sm_active)},
          {"sm_active_now", Optional(view.sm_active_now)},
          {"power_w", Optional(view.power_w)},
          {"energy_j", Optional(view.energy_j)},
          {"temperature_c", Optional(view.temperature_c)},
          {"sample_age_ms", Optional(view.sample_age_ms)},
          {"foreign_processes", view.foreign_processes},
          {"tasks", List(view.tasks)},
          {"foreign", List(view.foreign)},
          {"unattributed_mib", Optional(view.unattributed_mib)},
          {"alerts", view.alerts},
          {"drained_by_rule", view.drained_by_rule},
          {"sm_active_p95", Optional(view.sm_active_p95)},
          {"sm_active_ewma", Optional(view.sm_active_ewma)},
          {"metrics", List(view.metrics)},
          {"activity_source", view.activity_source},
          {"activity_rule", view.activity_rule},
          {"mig_profile", view.mig_profile},
          {"mig_parent", view.mig_parent}};
}

Result<GpuView> GpuViewFromJson(const Json& json) {
  GpuView view;
  JsonReader in(json, "");
  in.Get("index", view.index, 0, kAny);
  in.Get("uuid", view.uuid);
  in.Get("name", view.name);
  in.Get("state", view.state);
  in.Get("trouble", view.trouble, kMaxText);
  in.Get("total_mib", view.total_mib, kAnyLow, kAny);
  in.Get("reserved_mib", view.reserved_mib, kAnyLow, kAny);
  in.Get("used_mib", view.used_mib, kAnyLow, kAny);
  in.Get("claimed_mib", view.claimed_mib, kAnyLow, kAny);
  in.Get("foreign_mib", view.foreign_mib, kAnyLow, kAny);
  in.Get("free_mib", view.free_mib, kAnyLow, kAny);
  in.Get("sm_active", view.sm_active, -kAnyNumber, kAnyNumber);
  in.Get("sm_active_now", view.sm_active_now, -kAnyNumber, kAnyNumber);
  in.Get("power_w", view.power_w, -kAnyNumber, kAnyNumber);
  in.Get("energy_j", view.energy_j, -kAnyNumber, kAnyNumber);
  in.Get("temperature_c", view.temperature_c, -kAnyNumber, kAnyNumber);
  in.Get("sample_age_ms", view.sample_age_ms, kAnyLow, kAny);
  in.Get("foreign_processes", view.foreign_processes, 0, INT32_MAX);
  in.Get("unattributed_mib", view.unattributed_mib, kAnyLow, kAny);
  in.Get("alerts", view.alerts);
  in.Get("drained_by_rule", view.drained_by_rule);
  in.Get("sm_active_p95", view.sm_active_p95, -kAnyNumber, kAnyNumber);
  in.Get("sm_active_ewma", view.sm_active_ewma, -kAnyNumber, kAnyNumber);
  in.Get("activity_source", view.activity_source);
  in.Get("activity_rule", view.activity_rule, kMaxText);
  in.Get("mig_profile", view.mig_profile);
  in.Get("mig_parent", view.mig_parent);
  if (auto error = GetList(in, "tasks", view.tasks, &GpuTaskViewFromJson)) {
    return std::unexpected(*error);
  }
  if (auto error = GetList(in, "foreign", view.foreign, &ForeignViewFromJson)) {
    return std::unexpected(*error);
  }
  if (auto error = GetList(in, "metrics", view.metrics, &MetricFromJson)) {
    return std::unexpected(*error);
  }
  return Finish(in, std::move(view));
}

Json ToJson(const GpuHistoryView& view) {
  return {{"index", view.index},
          {"uuid", view.uuid},
          {"name", view.name},
          {"points", List(view.points)}};
}

Result<GpuHistoryView> GpuHistoryViewFromJson(const Json& json) {
  GpuHistoryView view;
  JsonReader in(json, "");
  in.Get("index", view.index, 0, kAny);
  in.Get("uuid", view.uuid);
  in.Get("name", view.name);
  if (auto error = GetList(in, "points", view.points, &PointFromJson)) {
    return std::unexpected(*error);
  }
  return Finish(in, std::move(view));
}

Json ToJson(const ExplainView& view) {
  return {{"task", ToJson(view.task)},
          {"gpus", List(view.gpus)},
          {"ahead", Optional(view.ahead)},
          {"policy", view.policy},
          {"collocation", view.collocation}};
}

Result<ExplainView> ExplainViewFromJson(const Json& json) {
  ExplainView view;
  JsonReader in(json, "");
  const Json* task = in.Raw("task");
  if (!task) {
    in.Complain("task", "the task");
  } else if (auto read = TaskViewFromJson(*task)) {
    view.task = std::move(*read);
  } else {
    return base::Wrap(read.error(), "/task");
  }
  if (auto error = GetList(in, "gpus", view.gpus, &VerdictViewFromJson)) {
    return std::unexpected(*error);
  }
  Get(in, "ahead", view.ahead);
  in.Get("policy", view.policy, kMaxText);
  in.Get("collocation", view.collocation, kMaxText);
  return Finish(in, std::move(view));
}

Json ToJson(const KnowledgeView& view) {
  return {{"method", view.method},
          {"coverage", view.coverage},
          {"gpu_type", view.gpu_type},
          {"gpu_mib", view.gpu_mib},
          {"learns", view.learns},
          {"taught_by", view.taught_by},
          {"tasks", view.tasks},
          {"context_shift_mib", view.context_shift_mib},
          {"ratios", view.ratios},
          {"runs", List(view.runs)},
          {"kin_runs", List(view.kin_runs)}};
}

Result<KnowledgeView> KnowledgeViewFromJson(const Json& json) {
  KnowledgeView view;
  JsonReader in(json, "");
  in.Get("method", view.method);
  in.Get("coverage", view.coverage, 0, 1);
  in.Get("gpu_type", view.gpu_type);
  in.Get("gpu_mib", view.gpu_mib, 0, kAny);
  in.Get("learns", view.learns);
  in.Get("taught_by", view.taught_by);
  in.Get("tasks", view.tasks, 0, kAny);
  in.Get("context_shift_mib", view.context_shift_mib, -kAnyNumber, kAnyNumber);
  Get(in, "ratios", view.ratios);
  for (auto [key, runs] : {std::pair("runs", &view.runs), std::pair("kin_runs", &view.kin_runs)}) {
    if (auto error = GetList(in, key, *runs, &RunViewFromJson)) return std::unexpected(*error);
  }
  return Finish(in, std::move(view));
}

Json ToJson(const EventView& view) {
  return {{"sequence", view.sequence}, {"when_ms", view.when_ms}, {"task", Optional(view.task)},
          {"gpu_uuid", view.gpu_uuid}, {"what", view.what},       {"text", view.text}};
}

Result<EventView> EventViewFromJson(const Json& json) {
  EventView view;
  JsonReader in(json, "");
  in.Get("sequence", view.sequence, kAnyLow, kAny);
  in.Get("when_ms", view.when_ms, kAnyLow, kAny);
  Get(in, "task", view.task);
  in.Get("gpu_uuid", view.gpu_uuid);
  in.Get("what", view.what);
  in.Get("text", view.text, kMaxText);
  return Finish(in, std::move(view));
}

Json ToJson(const StatusView& view) {
  Json counts = Json::object();
  for (const auto& [state, count] : view.task_counts) counts[state] = count;
  return {{"version", view.version},
          {"uid", view.uid},
          {"pid", view.pid},
          {"now_ms", view.now_ms},
          {"time_scale", view.time_scale},
          {"policy", view.policy},
          {"collocation", view.collocation},
          {"driver", view.driver},
          {"task_counts", std::move(counts)},
          {"troubles", view.troubles}};
}

Result<StatusView> StatusViewFromJson(const Json& json) {
  StatusView view;
  JsonReader in(json, "");
  in.Get("version", view.version);
  Get(in, "uid", view.uid);
  in.Get("pid", view.pid, 0, kAny);
  in.Get("now_ms", view.now_ms, kAnyLow, kAny);
  in.Get("time_scale", view.time_scale, 0, kAnyNumber);
  in.Get("policy", view.policy, kMaxText);
  in.Get("collocation", view.collocation, kMaxText);
  in.Get("driver", view.driver, kMaxText);
  if (const Json* counts = in.Raw("task_counts")) {
    if (!counts->is_object()) {
      in.Complain("task_counts", "an object of numbers");
    } else {
      for (const auto& [state, count] : counts->items()) {
        if (!count.is_number_integer())
          in.Complain("task_counts", "an object of numbers");
        else
          view.task_counts.emplace_back(state, count.get<std::int64_t>());
      }
    }
  }
  in.Get("troubles", view.troubles);
  return Finish(in, std::move(view));
}

}  // namespace carma::api

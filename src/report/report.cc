#include "report/report.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "base/fields_json.h"
#include "base/json.h"
#include "base/try.h"

namespace carma::report {

using base::Json;
using base::JsonReader;

namespace {

constexpr int kVersion = 1;
constexpr std::size_t kMaxAttempts = 10'000;
constexpr std::size_t kMaxPoints = 1'000'000;
constexpr std::size_t kMaxGpusOfTask = 100'000;
constexpr std::size_t kMaxForecastsShown = 20;
constexpr std::size_t kMaxReasons = 1'000;
constexpr double kMaxValue = 1e15;

// ---- writing (directly as text, because a JSON tree would take ten times the memory) ----

using JsonText = fmt::memory_buffer;

template <class... Args>
void Put(JsonText& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string Quoted(const std::string& text) {
  return base::DumpJson(Json(text));
}

// Writes a list; `put` writes the item for each value.
template <class Range, class PutItem>
void PutList(JsonText& out, const Range& range, PutItem put) {
  out.push_back('[');
  bool first = true;
  for (const auto& each : range) {
    if (!std::exchange(first, false)) out.push_back(',');
    put(each);
  }
  out.push_back(']');
}

// Writes null if a value was not reported, and otherwise six significant digits.
void PutNumber(JsonText& out, double value) {
  if (std::isfinite(value)) {
    Put(out, "{:.6g}", value);
  } else {
    Put(out, "null");
  }
}

void PutTask(JsonText& out, const RunTask& task) {
  Put(out, R"({{"id":{},"name":{})", task.id, Quoted(task.name));
  if (!task.group.empty()) Put(out, R"(,"group":{})", Quoted(task.group));
  if (!task.user.empty()) Put(out, R"(,"user":{})", Quoted(task.user));
  Put(out, R"(,"gpus":{},"submitted_ms":{})", task.gpus, base::ToMs(task.submitted));
  if (task.ended) Put(out, R"(,"ended_ms":{})", base::ToMs(*task.ended));
  Put(out, R"(,"state":"{}")", core::TaskStateName(task.state));
  if (!task.reason.empty()) Put(out, R"(,"reason":{})", Quoted(task.reason));
  if (task.solo_s && std::isfinite(*task.solo_s)) Put(out, R"(,"solo_s":{})", *task.solo_s);
  if (task.whole_solo_s && std::isfinite(*task.whole_solo_s))
    Put(out, R"(,"whole_solo_s":{})", *task.whole_solo_s);
  if (task.lost_s && std::isfinite(*task.lost_s)) Put(out, R"(,"lost_s":{})", *task.lost_s);
  Put(out, R"(,"attempts":)");
  PutList(out, task.attempts, [&](const Attempt& attempt) {
    Put(out, R"({{"from_ms":{},"to_ms":{},"end":"{}","gpus":[{}])", base::ToMs(attempt.started),
        base::ToMs(attempt.ended), base::WordOf(attempt.end), fmt::join(attempt.gpus, ","));
    if (attempt.promised_mib && std::isfinite(*attempt.promised_mib))
      Put(out, R"(,"promised_mib":{})", *attempt.promised_mib);
    if (attempt.out_of_queue > core::Duration{0})
      Put(out, R"(,"out_of_queue_ms":{})", attempt.out_of_queue.count());
    out.push_back('}');
  });
  if (!task.forecasts.empty()) {
    Put(out, R"(,"forecasts":)");
    PutList(out, task.forecasts, [&](const Forecast& each) {
      Put(out, R"({{"what":{},"by":{},"predicted":{})", Quoted(each.what), Quoted(each.by),
          each.predicted);
      if (each.promised) Put(out, R"(,"promised":{})", *each.promised);
      Put(out, R"(,"seen":{}}})", each.seen);
    });
  }
  out.push_back('}');
}

void PutColumn(JsonText& out, const char* key, const std::vector<GpuPoint>& points,
               double GpuPoint::*column) {
  Put(out, R"(,"{}":)", key);
  PutList(out, points, [&](const GpuPoint& point) { PutNumber(out, point.*column); });
}

void PutGpu(JsonText& out, const RunGpu& gpu) {
  Put(out, R"({{"name":{},"type":{},"usable_mib":{},"at_ms":)", Quoted(gpu.name), Quoted(gpu.type),
      gpu.usable_mib);
  PutList(out, gpu.points, [&](const GpuPoint& point) { Put(out, "{}", base::ToMs(point.at)); });
  PutColumn(out, "used_mib", gpu.points, &GpuPoint::used_mib);
  PutColumn(out, "sm_active", gpu.points, &GpuPoint::sm_active);
  PutColumn(out, "power_w", gpu.points, &GpuPoint::power_w);
  out.push_back('}');
}

void PutRun(JsonText& out, const RunRecord& run) {
  Put(out, R"({{"version":{},"from_ms":{},"to_ms":{},"tasks":)", kVersion, base::ToMs(run.from),
      base::ToMs(run.to));
  PutList(out, run.tasks, [&](const RunTask& task) { PutTask(out, task); });
  Put(out, R"(,"gpus":)");
  PutList(out, run.gpus, [&](const RunGpu& gpu) { PutGpu(out, gpu); });
  if (!run.line_waits_s.empty()) {
    Put(out, R"(,"line_waits":)");
    PutList(out, run.line_waits_s, [&](const auto& wait) {
      Put(out, R"({{"reason":{},"waited_s":{:.6g}}})", Quoted(wait.first), wait.second);
    });
  }
  out.push_back('}');
}

// ---- reading ----

std::unexpected<base::Error> Expected(const std::string& pointer, std::string_view what) {
  return Invalid(pointer + ": expected " + std::string(what));
}

// Reads a list from `json`; an absent list is empty. Fails if the value is not a list, or if the
// list is too long.
Result<const Json*> ListOf(JsonReader& in, const char* key, std::size_t most,
                           const std::string& pointer) {
  static const Json kNone = Json::array();
  const Json* list = in.Raw(key);
  if (list == nullptr || list->is_null()) return &kNone;
  if (!list->is_array() || list->size() > most)
    return Expected(pointer + "/" + key, "a list of at most " + std::to_string(most) + " items");
  return list;
}

// Reads a time that must be present.
core::Time NeedTime(JsonReader& in, const char* key) {
  std::int64_t ms = 0;
  if (!in.Get(key, ms, -kMaxMs, kMaxMs)) in.Complain(key, "a time in ms");
  return base::FromMs(ms);
}

Result<Attempt> ReadAttempt(const Json& json, const std::string& pointer, std::size_t gpus) {
  Attempt attempt;
  JsonReader in(json, pointer);
  attempt.started = NeedTime(in, "from_ms");
  attempt.ended = NeedTime(in, "to_ms");
  std::string end;
  in.Get("end", end, 40);
  in.Get("promised_mib", attempt.promised_mib, 0, kMaxValue);
  std::int64_t out_of_queue_ms = 0;
  in.Get("out_of_queue_ms", out_of_queue_ms, 0, kMaxMs);
  attempt.out_of_queue = core::Duration(out_of_queue_ms);
  const Result<const Json*> list = ListOf(in, "gpus", kMaxGpusOfTask, pointer);
  if (in.error()) return std::unexpected(*in.error());
  if (!list) return std::unexpected(list.error());
  if (attempt.ended < attempt.started)
    return Expected(pointer + "/to_ms", "a time no earlier than from_ms");
  const std::optional<AttemptEnd> known = base::FromWord<AttemptEnd>(end);
  if (!known)
    return Expected(pointer + "/end", "succeeded, out_of_memory, failed, stopped or unfinished");
  attempt.end = *known;
  for (const Json& gpu : **list) {
    if (!gpu.is_number_unsigned() || gpu.get<std::uint64_t>() >= gpus)
      return Expected(pointer + "/gpus", "indices below " + std::to_string(gpus));
    attempt.gpus.push_back(gpu.get<int>());
  }
  return attempt;
}

Result<RunTask> ReadTask(const Json& json, const std::string& pointer, std::size_t gpus) {
  RunTask task;
  JsonReader in(json, pointer);
  std::int64_t id = 0;
  in.Get("id", id, 0, INT64_MAX);
  task.id = static_cast<std::uint64_t>(id);
  in.Get("name", task.name);
  in.Get("group", task.group);
  in.Get("user", task.user);
  in.Get("gpus", task.gpus, 0, 1'000'000);
  task.submitted = NeedTime(in, "submitted_ms");
  if (in.Has("ended_ms")) task.ended = NeedTime(in, "ended_ms");
  std::string state;
  in.Get("state", state, 40);
  in.Get("reason", task.reason);
  in.Get("solo_s", task.solo_s, 0, kMaxValue);
  in.Get("whole_solo_s", task.whole_solo_s, 0, kMaxValue);
  in.Get("lost_s", task.lost_s, 0, kMaxValue);
  const Result<const Json*> attempts = ListOf(in, "attempts", kMaxAttempts, pointer);
  const Result<const Json*> forecasts = ListOf(in, "forecasts", kMaxForecastsShown, pointer);
  if (in.error()) return std::unexpected(*in.error());
  if (!attempts) return std::unexpected(attempts.error());
  if (!forecasts) return std::unexpected(forecasts.error());
  for (std::size_t i = 0; i < (*forecasts)->size(); ++i) {
    task.forecasts.push_back(CARMA_TRY(base::FieldsFromJson<Forecast>(
        (**forecasts)[i], pointer + "/forecasts/" + std::to_string(i),
        base::Unknown::kPassedOver)));
  }
  const std::optional<core::TaskState> known = core::ParseTaskState(state);
  if (!known) return Expected(pointer + "/state", "a task state");
  task.state = *known;
  for (std::size_t i = 0; i < (*attempts)->size(); ++i) {
    const std::string place = pointer + "/attempts/" + std::to_string(i);
    Attempt attempt = CARMA_TRY(ReadAttempt((**attempts)[i], place, gpus));
    if (i > 0 && attempt.started < task.attempts.back().ended)
      return Expected(place + "/from_ms", "a time no earlier than the end of the previous attempt");
    task.attempts.push_back(std::move(attempt));
  }
  return task;
}

Result<Unit> ReadColumn(JsonReader& in, const char* key, const std::string& pointer, double most,
                        double GpuPoint::*column, std::vector<GpuPoint>& points) {
  const Json& list = *CARMA_TRY(ListOf(in, key, points.size(), pointer));
  if (list.size() != points.size())
    return Expected(pointer + "/" + key, "as many values as at_ms has");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Json& value = list[i];
    const bool sound = value.is_number() && value.get<double>() >= 0 && value.get<double>() <= most;
    if (!sound && !value.is_null()) {
      return Expected(pointer + "/" + key + "/" + std::to_string(i),
                      fmt::format("null or a number from 0 to {}", most));
    }
    points[i].*column = sound ? value.get<double>() : kUnknown;
  }
  return Unit{};
}

Result<RunGpu> ReadGpu(const Json& json, const std::string& pointer) {
  RunGpu gpu;
  JsonReader in(json, pointer);
  in.Get("name", gpu.name);
  in.Get("type", gpu.type);
  in.Get("usable_mib", gpu.usable_mib, 0, std::int64_t{1} << 40);
  const Result<const Json*> times = ListOf(in, "at_ms", kMaxPoints, pointer);
  if (in.error()) return std::unexpected(*in.error());
  if (!times) return std::unexpected(times.error());
  for (const Json& time : **times) {
    const std::int64_t ms = time.is_number_integer() ? time.get<std::int64_t>() : INT64_MIN;
    if (ms < -kMaxMs || ms > kMaxMs ||
        (!gpu.points.empty() && base::FromMs(ms) < gpu.points.back().at)) {
      return Expected(pointer + "/at_ms", "ascending times in ms");
    }
    gpu.points.push_back({.at = base::FromMs(ms)});
  }
  for (const auto& [key, most, column] : {std::tuple{"used_mib", kMaxValue, &GpuPoint::used_mib},
                                          std::tuple{"sm_active", 1.0, &GpuPoint::sm_active},
                                          std::tuple{"power_w", kMaxValue, &GpuPoint::power_w}}) {
    CARMA_TRY(ReadColumn(in, key, pointer, most, column, gpu.points));
  }
  return gpu;
}

Result<RunRecord> ReadRun(const Json& json, const std::string& pointer) {
  RunRecord run;
  JsonReader in(json, pointer);
  int version = 0;
  in.Get("version", version, 0, INT32_MAX);
  run.from = NeedTime(in, "from_ms");
  run.to = NeedTime(in, "to_ms");
  const Result<const Json*> gpus = ListOf(in, "gpus", kMaxReportGpus, pointer);
  const Result<const Json*> tasks = ListOf(in, "tasks", kMaxReportTasks, pointer);
  const Result<const Json*> waits = ListOf(in, "line_waits", kMaxReasons, pointer);
  if (in.error()) return std::unexpected(*in.error());
  if (version != kVersion) {
    return Expected(pointer + "/version",
                    fmt::format("{}; version {} is not supported", kVersion, version));
  }
  for (const auto* list : {&gpus, &tasks, &waits}) {
    if (!*list) return std::unexpected(list->error());
  }
  if (run.to < run.from) return Expected(pointer + "/to_ms", "a time no earlier than from_ms");
  for (std::size_t i = 0; i < (*gpus)->size(); ++i)
    run.gpus.push_back(CARMA_TRY(ReadGpu((**gpus)[i], pointer + "/gpus/" + std::to_string(i))));
  for (std::size_t i = 0; i < (*tasks)->size(); ++i) {
    const std::string place = pointer + "/tasks/" + std::to_string(i);
    RunTask task = CARMA_TRY(ReadTask((**tasks)[i], place, run.gpus.size()));
    if (!run.tasks.empty() && task.id <= run.tasks.back().id)
      return Expected(place + "/id", "a number greater than the previous task's id");
    run.tasks.push_back(std::move(task));
  }
  for (std::size_t i = 0; i < (*waits)->size(); ++i) {
    JsonReader wait((**waits)[i], pointer + "/line_waits/" + std::to_string(i));
    std::string reason;
    double waited_s = 0;
    wait.Get("reason", reason, 40);
    wait.Get("waited_s", waited_s, 0, kMaxValue);
    if (wait.error()) return std::unexpected(*wait.error());
    run.line_waits_s[reason] += waited_s;
  }
  return run;
}

Result<Report> ReadReport(const Json& json, const std::string& pointer) {
  Result<Metrics> metrics = FromJson(json);
  if (!metrics)
    return std::unexpected(base::Error{metrics.error().code, pointer + metrics.error().message});
  Report report{.metrics = *std::move(metrics)};
  const auto run = json.find("run");
  if (run == json.end() || run->is_null()) return report;
  RunRecord record = CARMA_TRY(ReadRun(*run, pointer + "/run"));
  record.label = report.metrics.label;
  record.provenance = report.metrics.provenance;
  record.simulated = report.metrics.simulated;
  record.bounds = report.metrics.bounds;
  report.run = std::move(record);
  return report;
}

}  // namespace

Report MakeReport(RunRecord run) {
  Metrics metrics = Compute(run);
  return {.metrics = std::move(metrics), .run = std::move(run)};
}

std::string ToJsonText(const Report& report) {
  std::string metrics = ToJsonText(report.metrics);
  if (!report.run) return metrics;
  JsonText out;
  metrics.pop_back();  // the closing brace comes after the record
  Put(out, R"({},"run":)", metrics);
  PutRun(out, *report.run);
  out.push_back('}');
  return fmt::to_string(out);
}

Result<std::vector<Report>> ReportsFromJsonText(std::string_view text) {
  const Json json = CARMA_TRY(base::ParseJson(text));
  std::vector<Report> reports;
  if (!json.is_array()) {
    reports.push_back(CARMA_TRY(ReadReport(json, "")));
    return reports;
  }
  if (json.empty() || json.size() > kMaxReports)
    return Invalid("expected a report or a list of 1 to " + std::to_string(kMaxReports) +
                   " reports");
  for (std::size_t i = 0; i < json.size(); ++i)
    reports.push_back(CARMA_TRY(ReadReport(json[i], "/" + std::to_string(i))));
  return reports;
}

}  // namespace carma::report

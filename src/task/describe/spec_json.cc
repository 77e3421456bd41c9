#include "task/describe/spec_json.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Json;
using base::JsonReader;
using base::Result;

constexpr std::array<std::pair<core::DependencyKind, const char*>, 3> kKindNames{{
    {core::DependencyKind::kAfterOk, "afterok"},
    {core::DependencyKind::kAfterAny, "afterany"},
    {core::DependencyKind::kAfterNotOk, "afternotok"},
}};

Json DependencyJson(const core::Dependency& dependency) {
  Json json{{"task", core::Number(dependency.task)}};
  for (const auto& [kind, name] : kKindNames) {
    if (kind == dependency.kind) json["kind"] = name;
  }
  if (dependency.known_final) {
    json["known_final"] = std::string(core::TaskStateName(*dependency.known_final));
  }
  return json;
}

Result<core::Dependency> DependencyFromJson(const Json& json, const std::string& pointer) {
  core::Dependency dependency;
  JsonReader in(json, pointer);
  std::int64_t task = 0;
  if (!in.Get("task", task, 1, INT64_MAX)) in.Complain("task", "a task number from 1");
  dependency.task = core::TaskId{static_cast<std::uint64_t>(task)};
  std::string kind = "afterok";
  in.Get("kind", kind);
  bool known = false;
  for (const auto& [value, name] : kKindNames) {
    if (kind == name) {
      dependency.kind = value;
      known = true;
    }
  }
  if (!known) in.Complain("kind", "afterok, afterany or afternotok");
  std::string final_state;
  if (in.Get("known_final", final_state)) {
    dependency.known_final = core::ParseTaskState(final_state);
    if (!dependency.known_final || !core::IsFinal(*dependency.known_final)) {
      in.Complain("known_final", "a final task state");
    }
  }
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  return dependency;
}

void ReadEnvironment(JsonReader& in, TaskSpec& spec) {
  const Json* environment = in.Raw("environment");
  if (environment == nullptr) return;
  if (!environment->is_object()) return in.Complain("environment", "an object of texts");
  spec.environment.clear();
  for (const auto& [name, value] : environment->items()) {
    if (!value.is_string()) return in.Complain("environment", "texts as values");
    spec.environment.emplace(name, value.get<std::string>());
  }
}

void ReadDependencies(JsonReader& in, const std::string& pointer, TaskSpec& spec,
                      std::optional<base::Error>& error) {
  const Json* list = in.Raw("dependencies");
  if (list == nullptr) return;
  if (!list->is_array() || list->size() > kMaxDependencies) {
    return in.Complain("dependencies", "a list of at most " + std::to_string(kMaxDependencies));
  }
  spec.dependencies.clear();
  for (std::size_t i = 0; i < list->size(); ++i) {
    Result<core::Dependency> dependency =
        DependencyFromJson((*list)[i], pointer + "/dependencies/" + std::to_string(i));
    if (!dependency) {
      error = dependency.error();
      return;
    }
    spec.dependencies.push_back(*dependency);
  }
}

void ReadWhatToRun(JsonReader& in, TaskSpec& spec) {
  in.Get("name", spec.name, kMaxNameBytes);
  in.Get("command", spec.command, kMaxArgs, kMaxArgBytes);
  in.Get("script", spec.script, kMaxScriptBytes);
  in.Get("script_path", spec.script_path, kMaxPathBytes);
  in.Get("script_args", spec.script_args, kMaxArgs, kMaxArgBytes);
  in.Get("workdir", spec.workdir, kMaxPathBytes);
  ReadEnvironment(in, spec);
  in.Get("conda_env", spec.conda_env, kMaxPathBytes);
  in.Get("stdout_path", spec.stdout_path, kMaxPathBytes);
  in.Get("stderr_path", spec.stderr_path, kMaxPathBytes);
  in.Get("comment", spec.comment, kMaxPathBytes);
}

void ReadNeeds(JsonReader& in, TaskSpec& spec) {
  in.Get("gpus", spec.gpus, 1, kMaxGpus);
  in.Get("memory_mib", spec.memory_mib, 1, kMaxMemoryMib);
  in.Get("memory_source", spec.memory_source, 64);
  in.Get("exclusive", spec.exclusive);
  in.Get("sm_share", spec.sm_share, kMinSmShare, 1);
  in.Get("model_summary", spec.model_summary, kMaxPathBytes);
  in.Get("batch_size", spec.batch_size, 1, kMaxBatchSize);
  in.Get("optimizer", spec.optimizer, 64);
  in.Get("precision", spec.precision, 64);
}

void ReadWhen(JsonReader& in, TaskSpec& spec) {
  in.Get("priority", spec.priority, -kMaxPriority, kMaxPriority);
  std::optional<double> limit_s;
  if (in.Get("time_limit_s", limit_s, 0.001, base::Seconds(kMaxTimeLimit))) {
    spec.time_limit = base::Duration(std::llround(*limit_s * 1000));
  }
  std::optional<std::int64_t> begin_ms;
  if (in.Get("begin_ms", begin_ms, 0, kMaxBeginMs)) spec.begin = base::FromMs(*begin_ms);
  in.Get("max_recoveries", spec.max_recoveries, 0, kMaxRecoveries);
  in.Get("requeue", spec.requeue);
  in.Get("held", spec.held);
  in.Get("array_index", spec.array_index, 0, kMaxArrayIndex);
  in.Get("array_limit", spec.array_limit, 1, kMaxArrayIndex);
}

Json WithoutEnvironment(const TaskSpec& spec) {
  Json json{{"name", spec.name},
            {"workdir", spec.workdir},
            {"gpus", spec.gpus},
            {"memory_source", spec.memory_source},
            {"exclusive", spec.exclusive},
            {"priority", spec.priority},
            {"stdout_path", spec.stdout_path},
            {"stderr_path", spec.stderr_path},
            {"max_recoveries", spec.max_recoveries},
            {"requeue", spec.requeue},
            {"held", spec.held}};
  const auto put = [&](const char* key, const auto& value) {
    if (value) json[key] = *value;
  };
  if (!spec.command.empty()) json["command"] = spec.command;
  put("script", spec.script);
  put("script_path", spec.script_path);
  if (!spec.script_args.empty()) json["script_args"] = spec.script_args;
  put("conda_env", spec.conda_env);
  put("memory_mib", spec.memory_mib);
  put("sm_share", spec.sm_share);
  put("model_summary", spec.model_summary);
  put("batch_size", spec.batch_size);
  put("optimizer", spec.optimizer);
  put("precision", spec.precision);
  if (spec.time_limit) json["time_limit_s"] = base::Seconds(*spec.time_limit);
  if (spec.begin) json["begin_ms"] = base::ToMs(*spec.begin);
  for (const core::Dependency& dependency : spec.dependencies) {
    json["dependencies"].push_back(DependencyJson(dependency));
  }
  put("array_index", spec.array_index);
  put("array_limit", spec.array_limit);
  put("comment", spec.comment);
  return json;
}

// On top of what `spec` says already.
Result<TaskSpec> ReadFields(const Json& json, const std::string& pointer, TaskSpec spec) {
  JsonReader in(json, pointer);
  std::optional<base::Error> dependency_error;
  ReadWhatToRun(in, spec);
  ReadNeeds(in, spec);
  ReadWhen(in, spec);
  ReadDependencies(in, pointer, spec, dependency_error);
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  if (dependency_error) return std::unexpected(*dependency_error);
  return spec;
}

}  // namespace

Json ToJson(const TaskSpec& spec) {
  Json json = WithoutEnvironment(spec);
  if (!spec.environment.empty()) json["environment"] = spec.environment;
  return json;
}

Result<TaskSpec> SpecFromJson(const Json& json, const std::string& pointer,
                              const TaskSpec& common) {
  Result<TaskSpec> spec = ReadFields(json, pointer, common);
  if (!spec) return spec;
  FillDefaults(*spec);
  if (Result<base::Unit> valid = Validate(*spec); !valid) {
    return Fail(ErrorCode::kInvalid, pointer + "/" + valid.error().message);
  }
  return spec;
}

Result<TaskSpec> CommonFromJson(const Json& json, const std::string& pointer) {
  return ReadFields(json, pointer, {});
}

std::string ToJsonText(const TaskSpec& spec) {
  return base::DumpJson(ToJson(spec));
}

std::string SpecWriter::Text(const TaskSpec& spec) {
  std::string rest = base::DumpJson(WithoutEnvironment(spec));
  if (spec.environment.empty()) return rest;
  if (spec.environment != environment_) {
    environment_ = spec.environment;
    environment_text_ = base::DumpJson(environment_);
  }
  rest.replace(0, 1, ",");
  return "{\"environment\":" + environment_text_ + rest;
}

Result<TaskSpec> SpecFromJsonText(std::string_view text, const TaskSpec& common) {
  Result<Json> json = base::ParseJson(text);
  if (!json) return std::unexpected(json.error());
  return SpecFromJson(*json, "", common);
}

}  // namespace carma::task

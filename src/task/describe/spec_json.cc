#include "task/describe/spec_json.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/fields_json.h"
#include "base/try.h"

namespace carma::task {

using base::Json;

namespace {

constexpr std::string_view kEnvironmentFirst = "{\"environment\":";

class AllButEnvironment {
 public:
  explicit AllButEnvironment(Json& json) : writer_(json, base::Absent::kLeftOut) {}
  template <class Value>
  void operator()(const char* name, const Value& value, const char* text = "",
                  const base::FieldRule& rule = {}) {
    if (name != std::string_view("environment")) writer_(name, value, text, rule);
  }

 private:
  base::FieldWriter writer_;
};

}  // namespace

Json ToJson(const TaskSpec& spec) {
  return base::FieldsToJson(spec, base::Absent::kLeftOut);
}

Result<TaskSpec> SpecFromJson(const Json& json, const std::string& pointer,
                              const TaskSpec& common) {
  TaskSpec spec = CARMA_TRY(base::FieldsFromJson(json, pointer, base::Unknown::kRefused, common));
  FillDefaults(spec);
  if (Result<Unit> valid = Validate(spec); !valid)
    return Invalid(pointer + "/" + valid.error().message);
  return spec;
}

Result<TaskSpec> CommonFromJson(const Json& json, const std::string& pointer) {
  return base::FieldsFromJson<TaskSpec>(json, pointer, base::Unknown::kRefused);
}

std::string ToJsonText(const TaskSpec& spec) {
  return base::DumpJson(ToJson(spec));
}

std::string SpecWriter::Text(const TaskSpec& spec) {
  Json json = Json::object();
  AllButEnvironment writer(json);
  TaskSpec::VisitFields(writer, spec);
  std::string rest = base::DumpJson(json);
  if (spec.environment.empty()) return rest;
  if (spec.environment != environment_) {
    environment_ = spec.environment;
    environment_text_ = base::DumpJson(environment_);
  }
  rest.replace(0, 1, ",");
  return std::string(kEnvironmentFirst) + environment_text_ + rest;
}

Result<TaskSpec> SpecButEnvironment(std::string_view spec_json) {
  if (!spec_json.starts_with(kEnvironmentFirst)) return SpecFromJsonText(spec_json);
  std::size_t at = kEnvironmentFirst.size();
  for (bool in_text = false; at < spec_json.size() && (in_text || spec_json[at] != '}'); ++at) {
    if (spec_json[at] == '"') in_text = !in_text;
    if (spec_json[at] == '\\') ++at;
  }
  spec_json.remove_prefix(std::min(at + 2, spec_json.size()));  // skips "},"
  return SpecFromJsonText("{" + std::string(spec_json));
}

Result<TaskSpec> SpecFromJsonText(std::string_view text, const TaskSpec& common) {
  Json json = CARMA_TRY(base::ParseJson(text));
  return SpecFromJson(json, "", common);
}

std::optional<TaskSpec> LeaseSpecIn(const std::string& spec_json) {
  if (!spec_json.contains("\"lease\":")) return std::nullopt;
  Result<TaskSpec> spec = SpecFromJsonText(spec_json);
  return spec && spec->lease ? std::optional(*std::move(spec)) : std::nullopt;
}

}  // namespace carma::task

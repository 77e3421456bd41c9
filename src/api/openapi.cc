#include "api/openapi.h"

#include <string_view>

#include "api/changes_view.h"
#include "api/explain_view.h"
#include "api/gpu_view.h"
#include "api/knowledge_view.h"
#include "api/lease_view.h"
#include "api/overview.h"
#include "api/reservation_view.h"
#include "api/status_view.h"
#include "api/task_view.h"
#include "api/token_view.h"
#include "api/usage_view.h"
#include "api/views.h"
#include "base/fields_json.h"
#include "base/text.h"
#include "core/values/reservation.h"
#include "task/describe/spec.h"

namespace carma::api {

extern const std::string_view kOpenApiPaths;  // openapi.json

namespace {

using base::FieldRule;
using base::Json;

// The schema name of a type, for references. Types without a name are described in place.
template <class T>
constexpr const char* kSchema = nullptr;
template <>
constexpr const char* kSchema<task::TaskSpec> = "TaskSpec";
template <>
constexpr const char* kSchema<TaskView> = "Task";
template <>
constexpr const char* kSchema<GpuTaskView> = "GpuTask";
template <>
constexpr const char* kSchema<ForeignView> = "Foreign";
template <>
constexpr const char* kSchema<GpuView::Metric> = "Metric";
template <>
constexpr const char* kSchema<GpuView> = "Gpu";
template <>
constexpr const char* kSchema<GpuHistoryView::Point> = "GpuHistoryPoint";
template <>
constexpr const char* kSchema<GpuHistoryView> = "GpuHistory";
template <>
constexpr const char* kSchema<VerdictView> = "Verdict";
template <>
constexpr const char* kSchema<HostVerdictView> = "HostVerdict";
template <>
constexpr const char* kSchema<ExplainView> = "Explain";
template <>
constexpr const char* kSchema<RunView> = "Run";
template <>
constexpr const char* kSchema<KnowledgeView> = "Knowledge";
template <>
constexpr const char* kSchema<EventView> = "Event";
template <>
constexpr const char* kSchema<HostView> = "Host";
template <>
constexpr const char* kSchema<StatusView> = "Status";

template <>
constexpr const char* kSchema<TaskRow> = "TaskRow";
template <>
constexpr const char* kSchema<GpuGlance> = "GpuGlance";
template <>
constexpr const char* kSchema<OverviewView> = "Overview";
template <>
constexpr const char* kSchema<UserView> = "User";

template <>
constexpr const char* kSchema<TokenView> = "Token";
template <>
constexpr const char* kSchema<LeaseView> = "Lease";
template <>
constexpr const char* kSchema<ReservationView> = "Reservation";
template <>
constexpr const char* kSchema<core::Reservation> = "ReservationSpec";
template <>
constexpr const char* kSchema<WhoView> = "Who";
template <>
constexpr const char* kSchema<UsageView> = "Usage";
template <>
constexpr const char* kSchema<RefusedChange> = "RefusedChange";
template <>
constexpr const char* kSchema<ChangesView> = "Changes";

class Describer;
template <class T>
Describer Described(base::Absent absent);

// Describes each field of a type as a property.
class Describer {
 public:
  // absent: how the object is written. kNull is for answers, which have every field; kLeftOut is
  // for requests, so their defaults are listed.
  Describer(Json defaults, base::Absent absent) : defaults_(std::move(defaults)), absent_(absent) {}

  template <class Value>
  void operator()(const char* name, const Value&, const char* text = "",
                  const FieldRule& rule = {}) {
    Json schema = Schema<Value>(name, rule);
    if constexpr (base::kIsOptional<Value>) {
      if (absent_ == base::Absent::kNull) schema["type"] = {schema["type"], "null"};
    }
    if (*text != '\0') schema["description"] = text;
    const auto preset = defaults_.find(name);
    if (preset != defaults_.end() && !rule.required && *preset != "") schema["default"] = *preset;
    properties[name] = std::move(schema);
    if (rule.required) required.push_back(name);
  }

  Json properties = Json::object();
  Json required = Json::array();

 private:
  static void Limit(Json& schema, const Json& low, const Json& high) {
    if (low != Json(FieldRule{}.low) && low != Json(FieldRule{}.least)) schema["minimum"] = low;
    if (high != Json(FieldRule{}.high) && high != Json(FieldRule{}.most)) schema["maximum"] = high;
  }

  static Json Words(const std::vector<std::string_view>& words) {
    return {{"type", "string"}, {"enum", words}};
  }

  template <class Value>
  Json Schema(const char* name, const FieldRule& rule) const {
    if constexpr (base::kIsOptional<Value>) {
      return Schema<typename Value::value_type>(name, rule);
    } else if constexpr (base::HasFields<Value>) {
      if (kSchema<Value> != nullptr)
        return {{"$ref", std::string("#/components/schemas/") + kSchema<Value>}};
      const auto part = Described<Value>(absent_);
      return {{"type", "object"},
              {"properties", part.properties},
              {"required", part.required},
              {"additionalProperties", false}};
    } else if constexpr (base::kIsDictionary<Value>) {
      using Each = std::remove_cvref_t<decltype(Value{}.begin()->second)>;
      return {{"type", "object"}, {"additionalProperties", Schema<Each>(name, {})}};
    } else if constexpr (base::kIsList<Value>) {
      return {{"type", "array"}, {"items", Schema<typename Value::value_type>(name, {})}};
    } else if constexpr (base::HasWords<Value>) {
      std::vector<std::string_view> words;
      for (const auto& [value, word] : base::kWordsOf<Value>) words.push_back(word);
      return Words(words);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      if (!rule.words.empty()) return Words(base::Split(rule.words, ','));
      Json schema = {{"type", "string"}};
      if (rule.max_bytes < FieldRule{}.max_bytes) schema["maxLength"] = rule.max_bytes;
      return schema;
    } else if constexpr (std::is_same_v<Value, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_same_v<Value, double>) {
      Json schema = {{"type", "number"}};
      Limit(schema, rule.least, rule.most);
      return schema;
    } else {
      if (std::is_same_v<Value, base::Duration> && base::InSeconds(name))
        return {{"type", "number"}};
      Json schema = {{"type", "integer"}, {"format", "int64"}};
      Limit(schema, rule.low, rule.high);
      return schema;
    }
  }

  Json defaults_;
  base::Absent absent_;
};

template <class T>
Describer Described(base::Absent absent) {
  const T value{};
  Describer describer(
      absent == base::Absent::kLeftOut ? base::FieldsToJson(value, absent) : Json::object(),
      absent);
  T::VisitFields(describer, value);
  return describer;
}

template <class... Types>
void AddProperties(Json& schemas, base::Absent absent) {
  ((schemas[kSchema<Types>]["properties"] = Described<Types>(absent).properties), ...);
}

std::string MakeOpenApi() {
  Json document = base::ParseJson(kOpenApiPaths).value();
  Json& schemas = document["components"]["schemas"];
  AddProperties<task::TaskSpec, core::Reservation>(schemas, base::Absent::kLeftOut);
  AddProperties<TaskView, GpuTaskView, ForeignView, GpuView::Metric, GpuView, GpuHistoryView::Point,
                GpuHistoryView, VerdictView, HostVerdictView, ExplainView, RunView, KnowledgeView,
                EventView, HostView, StatusView, TaskRow, GpuGlance, OverviewView, UserView,
                TokenView, WhoView, LeaseView, RefusedChange, ChangesView, UsageView,
                ReservationView>(schemas, base::Absent::kNull);
  return document.dump(2);
}

}  // namespace

const std::string& OpenApiJson() {
  static const std::string document = MakeOpenApi();
  return document;
}

}  // namespace carma::api

#include "api/openapi.h"

#include <string_view>
#include <tuple>
#include <type_traits>

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

template <class T>
struct Named {
  using Type = T;
  const char* schema;
};
// Schemas that are referenced by name. All other types are described inline.
constexpr std::tuple kRequests{Named<task::TaskSpec>{"TaskSpec"},
                               Named<core::Reservation>{"ReservationSpec"}};
constexpr std::tuple kAnswers{Named<TaskView>{"Task"},
                              Named<GpuTaskView>{"GpuTask"},
                              Named<ForeignView>{"Foreign"},
                              Named<GpuView::Metric>{"Metric"},
                              Named<GpuView>{"Gpu"},
                              Named<GpuHistoryView::Point>{"GpuHistoryPoint"},
                              Named<GpuHistoryView>{"GpuHistory"},
                              Named<VerdictView>{"Verdict"},
                              Named<HostVerdictView>{"HostVerdict"},
                              Named<ExplainView>{"Explain"},
                              Named<RunView>{"Run"},
                              Named<KnowledgeView>{"Knowledge"},
                              Named<EventView>{"Event"},
                              Named<HostView>{"Host"},
                              Named<StatusView>{"Status"},
                              Named<TaskRow>{"TaskRow"},
                              Named<GpuGlance>{"GpuGlance"},
                              Named<OverviewView>{"Overview"},
                              Named<UserView>{"User"},
                              Named<TokenView>{"Token"},
                              Named<WhoView>{"Who"},
                              Named<LeaseView>{"Lease"},
                              Named<RefusedChange>{"RefusedChange"},
                              Named<ChangesView>{"Changes"},
                              Named<UsageView>{"Usage"},
                              Named<ReservationView>{"Reservation"}};

template <class T>
constexpr const char* SchemaOf() {
  const char* schema = nullptr;
  const auto look = [&](auto... each) {
    ((schema = std::is_same_v<T, typename decltype(each)::Type> ? each.schema : schema), ...);
  };
  std::apply(look, kRequests);
  std::apply(look, kAnswers);
  return schema;
}

// ---- schemas; not templates, because a template would repeat this code for each type ----

Json OfType(const char* type) {
  return {{"type", type}};
}

Json ReferenceTo(const char* schema) {
  return {{"$ref", std::string("#/components/schemas/") + schema}};
}

Json TypeWith(const char* type, const char* key, Json part) {
  Json schema = OfType(type);
  schema[key] = std::move(part);
  return schema;
}

Json Words(const std::vector<std::string_view>& words) {
  return TypeWith("string", "enum", words);
}

Json Text(const FieldRule& rule) {
  if (!rule.words.empty()) return Words(base::Split(rule.words, ','));
  Json schema = OfType("string");
  if (rule.max_bytes < FieldRule{}.max_bytes) schema["maxLength"] = rule.max_bytes;
  return schema;
}

void Limit(Json& schema, const Json& low, const Json& high) {
  if (low != Json(FieldRule{}.low) && low != Json(FieldRule{}.least)) schema["minimum"] = low;
  if (high != Json(FieldRule{}.high) && high != Json(FieldRule{}.most)) schema["maximum"] = high;
}

Json Number(const FieldRule& rule) {
  Json schema = OfType("number");
  Limit(schema, rule.least, rule.most);
  return schema;
}

Json Integer(const FieldRule& rule) {
  Json schema = TypeWith("integer", "format", "int64");
  Limit(schema, rule.low, rule.high);
  return schema;
}

// The schema of a time span in seconds. The rule's limits are in milliseconds.
Json Span(const FieldRule& rule) {
  const Json in_ms = Integer(rule);
  Json span = OfType("number");
  for (const char* end : {"minimum", "maximum"}) {
    if (in_ms.contains(end)) span[end] = base::Seconds(base::Duration(in_ms[end]));
  }
  return span;
}

Json Object(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

// Describes each field of a type as a property of its schema. kAbsent: how missing values are
// written. This is kNull for responses, which contain every field, and kLeftOut for requests, whose
// schema includes the default values.
template <base::Absent kAbsent>
class Describer {
 public:
  template <class T>
  static Describer Of() {
    const T value{};
    Describer describer;
    if constexpr (kAbsent == base::Absent::kLeftOut)
      describer.defaults_ = base::FieldsToJson(value, kAbsent);
    T::VisitFields(describer, value);
    return describer;
  }

  template <class Value>
  void operator()(const char* name, const Value&, const char* text = "",
                  const FieldRule& rule = {}) {
    Add(name, Schema<Value>(name, rule), base::kIsOptional<Value>, text, rule);
  }

  Json properties = Json::object();
  Json required = Json::array();

 private:
  void Add(const char* name, Json schema, bool optional, const char* text, const FieldRule& rule) {
    if (optional && kAbsent == base::Absent::kNull) schema["type"] = {schema["type"], "null"};
    if (*text != '\0') schema["description"] = text;
    const auto preset = defaults_.find(name);
    if (preset != defaults_.end() && !rule.required && *preset != "") schema["default"] = *preset;
    properties[name] = std::move(schema);
    if (rule.required) required.push_back(name);
  }

  template <class Value>
  Json Schema(const char* name, const FieldRule& rule) const {
    if constexpr (base::kIsOptional<Value>) {
      return Schema<typename Value::value_type>(name, rule);
    } else if constexpr (base::HasFields<Value>) {
      if (constexpr const char* schema = SchemaOf<Value>(); schema != nullptr)
        return ReferenceTo(schema);
      Describer part = Of<Value>();
      return Object(std::move(part.properties), std::move(part.required));
    } else if constexpr (base::kIsDictionary<Value>) {
      using Each = std::remove_cvref_t<decltype(Value{}.begin()->second)>;
      return TypeWith("object", "additionalProperties", Schema<Each>(name, {}));
    } else if constexpr (base::kIsList<Value>) {
      return TypeWith("array", "items", Schema<typename Value::value_type>(name, {}));
    } else if constexpr (base::HasWords<Value>) {
      std::vector<std::string_view> words;
      for (const auto& [value, word] : base::kWordsOf<Value>) words.push_back(word);
      return Words(words);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return Text(rule);
    } else if constexpr (std::is_same_v<Value, bool>) {
      return OfType("boolean");
    } else if constexpr (std::is_same_v<Value, double>) {
      return Number(rule);
    } else {
      const bool is_span = std::is_same_v<Value, base::Duration> && base::InSeconds(name);
      return is_span ? Span(rule) : Integer(rule);
    }
  }

  Json defaults_ = Json::object();
};

template <base::Absent kAbsent, class Types>
void AddProperties(Json& schemas, const Types& types) {
  const auto add = [&]<class T>(const Named<T>& each) {
    schemas[each.schema]["properties"] = Describer<kAbsent>::template Of<T>().properties;
  };
  std::apply([&](const auto&... each) { (add(each), ...); }, types);
}

std::string MakeOpenApi() {
  Json document = base::ParseJson(kOpenApiPaths).value();
  Json& schemas = document["components"]["schemas"];
  AddProperties<base::Absent::kLeftOut>(schemas, kRequests);
  AddProperties<base::Absent::kNull>(schemas, kAnswers);
  Json& change = schemas["TaskChange"]["properties"] = schemas["TaskSpec"]["properties"];
  for (Json& field : change) {
    field["type"] = {field["type"], "null"};
    field.erase("default");
  }
  for (Json& path : document["paths"]) {
    for (Json& method : path)
      method["responses"]["default"]["$ref"] = "#/components/responses/Failed";
  }
  return document.dump(2);
}

}  // namespace

const std::string& OpenApiJson() {
  static const std::string document = MakeOpenApi();
  return document;
}

}  // namespace carma::api

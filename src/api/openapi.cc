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
// The schemas that are referenced by name. All other types are described inline, where they are
// used.
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

class Describer;
template <class T>
Describer Described(base::Absent absent);

// Describes each field of a type as a property of its schema.
class Describer {
 public:
  // absent: how missing values are written. kNull is for responses, which contain every field.
  // kLeftOut is for requests; the schema then lists the default values.
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
      if (constexpr const char* schema = SchemaOf<Value>(); schema != nullptr)
        return {{"$ref", std::string("#/components/schemas/") + schema}};
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
      Json schema = {{"type", "integer"}, {"format", "int64"}};
      Limit(schema, rule.low, rule.high);
      if (!std::is_same_v<Value, base::Duration> || !base::InSeconds(name)) return schema;
      Json span = {{"type", "number"}};
      for (const char* end : {"minimum", "maximum"}) {
        if (schema.contains(end)) span[end] = base::Seconds(base::Duration(schema[end]));
      }
      return span;
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

template <class Types>
void AddProperties(Json& schemas, base::Absent absent, const Types& types) {
  const auto add = [&]<class T>(const Named<T>& each) {
    schemas[each.schema]["properties"] = Described<T>(absent).properties;
  };
  std::apply([&](const auto&... each) { (add(each), ...); }, types);
}

std::string MakeOpenApi() {
  Json document = base::ParseJson(kOpenApiPaths).value();
  Json& schemas = document["components"]["schemas"];
  AddProperties(schemas, base::Absent::kLeftOut, kRequests);
  AddProperties(schemas, base::Absent::kNull, kAnswers);
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

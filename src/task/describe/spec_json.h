// TaskSpec as a JSON value, for parsed documents (a batch of tasks) and stored ones.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "task/describe/spec.h"

namespace carma::task {

// Fields as in TaskSpec; time_limit_s in seconds, begin_ms since the epoch, absent where empty.
nlohmann::json ToJson(const TaskSpec& spec);
// pointer: of this object inside its document, "/tasks/3"; common: values of absent fields. Errors:
// those of SpecFromJsonText.
Result<TaskSpec> SpecFromJson(const nlohmann::json& json, const std::string& pointer,
                              const TaskSpec& common = {});
// Fields shared by many tasks; need not be a complete description.
Result<TaskSpec> CommonFromJson(const nlohmann::json& json, const std::string& pointer);

// A stored description without its environment, which is most of it.
Result<TaskSpec> SpecButEnvironment(std::string_view spec_json);
// The stored description, if it is that of a lease; no other description is parsed.
std::optional<TaskSpec> LeaseSpecIn(const std::string& spec_json);

}  // namespace carma::task

// TaskSpec as a JSON value, for parsed documents (a batch of tasks) and for stored descriptions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "task/describe/spec.h"

namespace carma::task {

// Writes the fields of TaskSpec under their names in the API, such as time_limit_s (seconds) and
// begin_ms (milliseconds since the epoch). Empty fields are omitted.
nlohmann::json ToJson(const TaskSpec& spec);
// pointer: position of this object in its document, such as "/tasks/3". common: values for absent
// fields. Returns the same errors as SpecFromJsonText.
Result<TaskSpec> SpecFromJson(const nlohmann::json& json, const std::string& pointer,
                              const TaskSpec& common = {});
// Parses fields shared by many tasks. They need not form a complete description.
Result<TaskSpec> CommonFromJson(const nlohmann::json& json, const std::string& pointer);

// Parses a stored description without its environment, which makes up most of the text.
Result<TaskSpec> SpecButEnvironment(std::string_view spec_json);
// Returns the stored description if it belongs to a lease. Other tasks' descriptions are not
// parsed.
std::optional<TaskSpec> LeaseSpecIn(const std::string& spec_json);

}  // namespace carma::task

// TaskSpec as a JSON value, for those who hold a parsed document (a batch of tasks), or a kept one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "task/describe/spec.h"

namespace carma::task {

// Fields as in TaskSpec; time_limit_s in seconds, begin_ms since the epoch, absent where empty.
nlohmann::json ToJson(const TaskSpec& spec);
// pointer: of this object inside its document, "/tasks/3"; common: what absent fields are. Errors:
// as SpecFromJsonText.
base::Result<TaskSpec> SpecFromJson(const nlohmann::json& json, const std::string& pointer,
                                    const TaskSpec& common = {});
// Fields that many tasks share; need not be a whole description yet.
base::Result<TaskSpec> CommonFromJson(const nlohmann::json& json, const std::string& pointer);

// The kept description, if it is that of a lease: most are not, and are not read.
std::optional<TaskSpec> LeaseSpecIn(const std::string& spec_json);

}  // namespace carma::task

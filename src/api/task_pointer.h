// Links an error to a task of a submission: the message begins with the JSON pointer of the place
// in the request's body, "/tasks/3/gpus: expected …".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace carma::api {

// The prefix of messages about one task: "/tasks/3" for the fourth.
std::string TaskPointer(std::size_t index);
// Returns the index of the task that the message begins with; empty if it names no task.
std::optional<std::size_t> TaskNamedBy(std::string_view message);

}  // namespace carma::api

// Links an error to one task of a submission. The message begins with a JSON pointer into the
// request body: "/tasks/3/gpus: expected …".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace carma::api {

// The prefix of messages about one task, such as "/tasks/3" for the fourth task.
std::string TaskPointer(std::size_t index);
// Returns the index of the task from the message's prefix. Empty if the message has no such prefix.
std::optional<std::size_t> TaskNamedBy(std::string_view message);

}  // namespace carma::api

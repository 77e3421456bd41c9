// Which task of a submission an error is about: its message begins with the JSON pointer of the
// place in the request's body, "/tasks/3/gpus: expected …".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace carma::api {

// "/tasks/3": the beginning of messages about the fourth task.
std::string TaskPointer(std::size_t index);
// The index of the task that the message begins with; empty: it names none.
std::optional<std::size_t> TaskNamedBy(std::string_view message);

}  // namespace carma::api

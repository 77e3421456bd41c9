// Which task of a submission an error is about: its message begins with the JSON pointer of the
// place in the request's body, "/tasks/3/gpus: expected …".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace carma::api {

// "/tasks/3": the place of the fourth task, before which messages put it.
std::string TaskPointer(std::size_t index);
// The task whose pointer the message begins with; empty: it is about no single one.
std::optional<std::size_t> TaskNamedBy(std::string_view message);

}  // namespace carma::api

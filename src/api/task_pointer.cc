#include "api/task_pointer.h"

#include <fmt/format.h>

#include "base/text.h"

namespace carma::api {
namespace {

constexpr std::string_view kTasks = "/tasks/";

}  // namespace

std::string TaskPointer(std::size_t index) {
  return fmt::format("{}{}", kTasks, index);
}

std::optional<std::size_t> TaskNamedBy(std::string_view message) {
  if (!message.starts_with(kTasks)) return std::nullopt;
  const std::string_view rest = message.substr(kTasks.size());
  const auto index = base::ParseInt(rest.substr(0, rest.find_first_not_of("0123456789")));
  return index ? std::optional(static_cast<std::size_t>(*index)) : std::nullopt;
}

}  // namespace carma::api

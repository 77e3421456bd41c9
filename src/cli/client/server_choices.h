// Completes the arguments of `carma`'s own verbs.
#pragma once

#include <string_view>

#include "cli/choices.h"

namespace carma::cli {

// Implements Program::choices for `carma`.
Choices ServerChoices(std::string_view verb, std::string_view option);

// The tasks that completion offers for a verb's arguments.
enum class TaskNames {
  kNone,
  kOpen,  // the caller's tasks that have not ended
  kAll,   // the caller's latest tasks, including ended tasks
};
TaskNames TasksWorthNaming(std::string_view verb);

}  // namespace carma::cli

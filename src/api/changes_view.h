// The API's response to a request that changes many tasks at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/task_view.h"

namespace carma::api {

// Maximum number of tasks in one change request. The daemon does not serve any other call while it
// handles the request.
inline constexpr std::size_t kMostChanges = 1'000;

struct RefusedChange {
  std::uint64_t task = 0;
  std::string code;
  std::string message;

  static void VisitFields(auto& field, auto& view) {
    field("task", view.task, "Task number.", {.low = 0});
    field("code", view.code, "Error code, as in an error response: not_found, denied, conflict …");
    field("message", view.message, "Why the task was not changed.");
  }
};

struct ChangesView {
  std::vector<TaskView> tasks;
  std::vector<RefusedChange> refused;

  static void VisitFields(auto& field, auto& view) {
    field("tasks", view.tasks, "The changed tasks in their new state, in the requested order.");
    field("refused", view.refused, "The tasks that were not changed, each with its error.");
  }
};

}  // namespace carma::api

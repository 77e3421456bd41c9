// Builds the view of a task for endpoint responses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "core/forecast/expected_start.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {

// Whether this caller may see the task's error messages. True for administrators, and for the owner
// if the caller's name is known.
bool SeesErrors(const Caller& caller, const store::TaskOwner& owner);
// The task as a row of a list, as this caller may see it.
api::TaskView View(const SharedServices& services, const store::StoredTask& stored,
                   const Caller& caller);
// Shortens a long command for a list row. The response for a single task has the full command.
void Shorten(std::vector<std::string>& command);
void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view);

}  // namespace carma::daemon

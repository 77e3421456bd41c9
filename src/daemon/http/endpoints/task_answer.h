// A task as the endpoints for tasks show it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "core/forecast/expected_start.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {

// Whether this caller may read what the task wrote. One without a name is unknown.
bool SeesErrors(const Caller& caller, const store::TaskOwner& owner);
// The task as a row of a list, for this caller.
api::TaskView View(const TaskServices& services, const store::StoredTask& stored,
                   const Caller& caller);
// A row of a list has only the beginning of a long command; the task's own answer has all of it.
void Shorten(std::vector<std::string>& command);
void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view);

}  // namespace carma::daemon

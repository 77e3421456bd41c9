// A task as the endpoints of tasks answer with it.
#pragma once

#include <map>

#include "api/task_view.h"
#include "core/forecast/expected_start.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {

// The task as a row of a list.
api::TaskView View(const TaskServices& services, const store::StoredTask& stored);
void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view);

}  // namespace carma::daemon

// A task as the endpoints for tasks show it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "api/task_view.h"
#include "core/forecast/expected_start.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {

// Whether this user may read what the task wrote. viewer: as identified by the kernel; empty:
// unknown.
bool SeesErrors(std::optional<std::uint32_t> viewer, const store::StoredTask& stored);
// The task as a row of a list, for this user.
api::TaskView View(const TaskServices& services, const store::StoredTask& stored,
                   std::optional<std::uint32_t> viewer);
void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view);

}  // namespace carma::daemon

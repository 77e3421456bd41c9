// The environment of a pilot: clock, cores, and the tasks of its carmad.
#pragma once

#include <cstdint>

#include "api/status_view.h"
#include "api/task_view.h"
#include "base/time.h"

namespace carma::cli {

base::Time SystemTime();
int OwnCpus();

std::int64_t UnfinishedTasks(const api::StatusView& status);
// Whether the task waits for a reason that will last until the end of this allocation. The result
// is valid only while nothing is running.
bool WaitsInVain(const api::TaskView& task);

}  // namespace carma::cli
